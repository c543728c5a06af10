"""The course's small exercises on the parts of a block, each done by the functions that the model is made of."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxgpt.model.parameters import Params
from jaxgpt.ops.attention import masked_softmax, masks, multi_head_attention
from jaxgpt.ops.embedding import embed
from jaxgpt.ops.feedforward import feed_forward, gelu
from jaxgpt.ops.norm import layer_norm
from jaxgpt.ops.taps import Recorder

from .lesson_weights import VOCABULARY
from .steps import Step, apart, exercise, same, shape_of

_ROUNDING = 1e-6


def block_exercises(params: Params) -> tuple[Step, ...]:
    """Return the exercises on activation, norm, mixing, mask, order and residual.

    Args:
        params: The lesson's parameters.
    """
    return (
        _gelu_table(),
        _norm_statistics(),
        _norm_of_two_rows(),
        _feature_mixing(params),
        _causal_mask(),
        _masked_scores(),
        _order_without_mask(params),
        _scalar_residual(),
    )


def _gelu_table() -> Step:
    x_N = np.array([-1, 0, 1, 2], np.float32)
    y_N = np.asarray(gelu(x_N))
    return exercise(
        "GELU",
        "A negative number is damped but not cut off, and a large positive one passes nearly whole.",
        shape_of("N", x_N),
        tuple(f"x = {x:.0f}" for x in x_N),
        "gelu",
        {"GELU(x)": y_N},
        (same("GELU(0) is 0", y_N[1], 0.0),),
    )


_ROW_C = np.array([1, 2, 3, 4], np.float32)
_TWO_ROWS_NC = np.stack([_ROW_C, 100 * _ROW_C + 1000])
_ROW_NAMES = ("x", "100x + 1000")


def _norm_statistics() -> Step:
    rows = {
        n: [float(x.mean()), float(x.var()), float(x.std())] for n, x in zip(_ROW_NAMES, _TWO_ROWS_NC, strict=True)
    }
    return exercise(
        "Mean and spread of a row",
        "For x = [1,2,3,4] the squared deviations are divided by 4 (not 3): the population variance.",
        shape_of("NC", _TWO_ROWS_NC),
        ("mean", "variance", "deviation"),
        "layer_norm_statistics",
        rows,
    )


def _norm_of_two_rows() -> Step:
    scale_C, bias_C = np.ones(4, np.float32), np.zeros(4, np.float32)
    y_NC = np.asarray(layer_norm(_TWO_ROWS_NC, scale_C, bias_C))
    alone_C = np.asarray(layer_norm(_ROW_C, scale_C, bias_C))
    return exercise(
        "Layer norm of a row, and of 100x + 1000",
        "Scale and offset drop out; what remains is how each feature stands to the others of its row.",
        shape_of("NC", y_NC),
        tuple(f"feature {i}" for i in range(4)),
        "layer_norm",
        dict(zip(_ROW_NAMES, y_NC, strict=True)),
        (
            same("both rows become the same, but for the epsilon under the root", y_NC[0], y_NC[1], within=1e-5),
            same("x on its own gives the same as beside another row", alone_C, y_NC[0], within=_ROUNDING),
        ),
    )


def _run_ffn(ffn: Params, z_C: jax.Array) -> tuple[list[float], np.ndarray]:
    """Return hidden unit 0 before GELU, after it, and output 0; and all outputs."""
    recorder = Recorder()
    out_C = np.asarray(feed_forward(z_C, ffn, tap=recorder))
    pre_F, hidden_F = (np.asarray(recorder.seen[name]) for name in ("pre", "hidden"))
    return [float(pre_F[0]), float(hidden_F[0]), float(out_C[0])], out_C


def _feature_mixing(params: Params) -> Step:
    z_C = jnp.array([1.0, 2.0, 0.0, 0.0])
    ffn = params["blocks_0"]["ffn"]
    up = ffn["up"] | {"kernel": ffn["up"]["kernel"].at[1, 0].set(1.0)}
    before, out_before_C = _run_ffn(ffn, z_C)
    after, out_after_C = _run_ffn(ffn | {"up": up}, z_C)
    return exercise(
        "Mixing features with one weight",
        "z = [1,2,0,0]: with W1[1,0] = 1 the first hidden unit reads z0 + z1 instead of z0 alone.",
        shape_of("C", z_C),
        ("before GELU", "after GELU", "output 0"),
        "mixing",
        {"W1[1,0] = 0": before, "W1[1,0] = 1": after},
        (same("outputs 1 to 3 do not change", out_before_C[1:], out_after_C[1:]),),
    )


def _causal_mask() -> Step:
    mask_TS = np.asarray(masks.causal().visible(4, 4))
    return exercise(
        "Causal mask of four tokens",
        "1 lets a query (row) see a key (column); nobody sees what comes later.",
        shape_of("TS", mask_TS),
        tuple(f"key t{s + 1}" for s in range(4)),
        "causal_mask",
        {f"t{t + 1}": row.astype(int) for t, row in enumerate(mask_TS)},
    )


def _masked_scores() -> Step:
    mask_TS, scores_TS = np.asarray(masks.causal().visible(4, 4)), np.arange(16, dtype=np.float32).reshape(4, 4) / 4
    weights_TS = np.asarray(masked_softmax(scores_TS, mask_TS))
    by_infinity_TS = np.asarray(masked_softmax(np.where(mask_TS, scores_TS, -np.inf), None))
    return exercise(
        "Softmax under the mask",
        "A masked score counts as -inf, and e^-inf is 0: a hidden key has no share, whatever it scored.",
        shape_of("TS", weights_TS),
        tuple(f"key t{s + 1}" for s in range(4)),
        "masked_scores",
        {f"t{t + 1}": row for t, row in enumerate(weights_TS)},
        (
            same("a score of -inf gets a weight of 0", by_infinity_TS[~mask_TS], 0.0),
            same("so does a masked score", weights_TS[~mask_TS], 0.0),
            same("each row sums to 1", weights_TS.sum(axis=-1), 1.0, within=_ROUNDING),
        ),
    )


def _order_without_mask(params: Params) -> Step:
    """Attend over four words without positions, in two orders, with and without the causal mask."""
    ids_T, order = np.array([0, 1, 2, 3]), np.array([2, 0, 3, 1])
    weights = params["blocks_0"]["attention"]
    x_BTC = embed(np.stack([ids_T, ids_T[order]]), params["token_embedding"])
    full_BTC = np.asarray(multi_head_attention(x_BTC, weights, mask="full"))
    causal_BTC = np.asarray(multi_head_attention(x_BTC, weights, mask="causal"))
    like, place = VOCABULARY.index("like"), int(np.argwhere(order == VOCABULARY.index("like"))[0, 0])
    rows = {
        "full, at place 1": full_BTC[0, like],
        f"full, at place {place}": full_BTC[1, place],
        "causal, at place 1": causal_BTC[0, like],
        f"causal, at place {place}": causal_BTC[1, place],
    }
    return exercise(
        "Does attention know the order?",
        "Four words without positions, then shuffled: 'like' moves from place 1 to place 3.",
        shape_of("BTC", x_BTC),
        tuple(f"feature {i}" for i in range(4)),
        "order",
        rows,
        (
            same("full mask: shuffling the words only shuffles the outputs", full_BTC[0, order], full_BTC[1],
                 within=_ROUNDING),
            apart("causal mask: no longer, since place decides what is visible", causal_BTC[0, order], causal_BTC[1]),
        ),
    )  # fmt: skip


def _scalar_residual() -> Step:
    def branch(x: jax.Array) -> jax.Array:
        return 0.1 * x

    def block(x: jax.Array) -> jax.Array:
        return x + branch(x)

    x, dx = 1.0, 0.01
    slope = jax.grad(block)(x)
    return exercise(
        "A residual path in one number",
        "y = x + 0.1x: the direct path carries a change whole, the branch adds a tenth of it.",
        "scalars",
        ("change dx", "change dy", "slope"),
        "scalar_residual",
        {"x + 0.1x": [dx, float(block(x + dx) - block(x)), float(slope)]},
        (same("the slope is 1 from the direct path plus the branch's own", slope, 1 + jax.grad(branch)(x),
              within=_ROUNDING),),
    )  # fmt: skip
