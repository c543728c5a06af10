"""Flax Linen modules: they declare parameters from the specs and call the pure functions of `ops`.

Each is a pure block over its own subtree: `Block(config).apply({"params": params["blocks_0"]}, x_BTC)`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxgpt.config import ExecutionConfig, ModelConfig, RequestError
from jaxgpt.ops.attention import Mask, NamedMask, masks, multi_head_attention
from jaxgpt.ops.attention.key_values import KeyValues
from jaxgpt.ops.contracts import check_floating, check_shape
from jaxgpt.ops.dropout import dropout, encoder_key, layer_key, site_key
from jaxgpt.ops.embedding import embed, vocabulary_logits
from jaxgpt.ops.feedforward import feed_forward
from jaxgpt.ops.linear import ServingKernel
from jaxgpt.ops.norm import NORMS
from jaxgpt.ops.rotary import Rotation, rotation, sinusoidal_table
from jaxgpt.ops.taps import Tap, no_tap, scoped

from .cache import BlockMemory, Cache
from .cache_checks import check_cache
from .inputs import Inputs, check_inputs
from .parameters import Params, draw, map_specs, path_number
from .specs import (
    ParamSpec,
    SpecTree,
    Stack,
    attention_specs,
    embedding_specs,
    ffn_specs,
    has_cross_attention,
    head_specs,
    norm_specs,
    position_specs,
)


def declare(module: nn.Module, specs: SpecTree) -> Params:
    """Declare the parameters of `specs` in a Linen module and return them, one entry per name.

    What `prepare` laid out for generation is taken as it is: Linen would miss the shapes it expects.
    """
    return {name: _prepared(module, name) or module.param(name, _initializer(entry)) for name, entry in specs.items()}


def _prepared(module: nn.Module, name: str) -> Any:
    held = module.get_variable("params", name)
    leaves = jax.tree.leaves(held, is_leaf=lambda leaf: isinstance(leaf, ServingKernel))
    return held if any(isinstance(leaf, ServingKernel) for leaf in leaves) else None


def _initializer(entry: ParamSpec | SpecTree):
    def initialize(key: jax.Array):
        if isinstance(entry, ParamSpec):
            return draw(entry, key)
        return map_specs(lambda path, spec: draw(spec, jax.random.fold_in(key, path_number(path))), entry)

    return initialize


class Norm(nn.Module):
    """Layer norm or RMS norm of each position; parameters `scale` and, by choice, `bias`."""

    config: ModelConfig

    @nn.compact
    def __call__(self, x_BTC: jax.Array) -> jax.Array:
        check_shape("x_BTC", x_BTC, C=self.config.width)
        params = declare(self, norm_specs(self.config))
        norm = NORMS[self.config.norm]
        return norm(x_BTC, params["scale"], params.get("bias"), epsilon=self.config.norm_epsilon)


class MultiHeadAttention(nn.Module):
    """Multi-head attention; returns the update for the residual stream, [B,T,C], and the memory if one was given.

    Attributes:
        site: Where in the block it stands, which names its dropout keys.
    """

    config: ModelConfig
    execution: ExecutionConfig = ExecutionConfig()
    stack: Stack = "main"
    site: Literal["attention", "cross_attention"] = "attention"

    @nn.compact
    def __call__(
        self,
        x_BTC: jax.Array,
        *,
        source_BSC: jax.Array | None = None,
        memory: KeyValues | None = None,
        start_B: jax.Array | None = None,
        mask: Mask | NamedMask = "causal",
        rotation: Rotation | None = None,
        dropout_key: jax.Array | None = None,
        tap: Tap = no_tap,
    ) -> Any:
        check_shape("x_BTC", x_BTC, C=self.config.width)
        result = multi_head_attention(
            x_BTC,
            declare(self, attention_specs(self.config, self.stack)),
            source_BSC=source_BSC,
            memory=memory,
            start_B=start_B,
            mask=mask,
            rotation=rotation,
            norm_epsilon=self.config.norm_epsilon,
            implementation=self.execution.attention,
            platform=None if self.execution.platform == "auto" else self.execution.platform,
            dropout_rate=self.config.attention_dropout,
            dropout_key=site_key(dropout_key, f"{self.site}_weights"),
            tap=tap,
        )
        update_BTC, memory = (result, None) if memory is None else result
        key = site_key(dropout_key, f"{self.site}_update")
        update_BTC = tap("update", dropout(update_BTC, self.config.residual_dropout, key))
        return update_BTC if memory is None else (update_BTC, memory)


class FeedForward(nn.Module):
    """The position-wise network C -> F -> C; returns the update for the residual stream, [B,T,C]."""

    config: ModelConfig
    stack: Stack = "main"

    @nn.compact
    def __call__(self, x_BTC: jax.Array, *, dropout_key: jax.Array | None = None, tap: Tap = no_tap) -> jax.Array:
        check_shape("x_BTC", x_BTC, C=self.config.width)
        params = declare(self, ffn_specs(self.config, self.stack))
        update_BTC = feed_forward(x_BTC, params, kind=self.config.ffn, gelu_kind=self.config.gelu, tap=tap)
        key = site_key(dropout_key, "ffn_update")
        return tap("update", dropout(update_BTC, self.config.residual_dropout, key))


class Block(nn.Module):
    """A pre-norm block: x + attention(ln1(x)), then + ffn(ln2(.)); [B,T,C] -> [B,T,C].

    In the decoder of an encoder_decoder, + cross_attention(ln_cross(.), source) stands between the two. One class
    serves all families: what differs is the mask, and whether there is a source.

    With a `memory`, of the tokens before and of the source, it returns the pair (residual, memory): T more tokens are
    then in it, from each row's slot `start_B` on, and a source_BSC, if there is one, in place of the one before.
    """

    config: ModelConfig
    execution: ExecutionConfig = ExecutionConfig()
    stack: Stack = "main"

    @nn.compact
    def __call__(
        self,
        residual_BTC: jax.Array,
        *,
        mask: Mask | NamedMask = "causal",
        rotation: Rotation | None = None,
        source_BSC: jax.Array | None = None,
        source_mask: Mask | NamedMask = "full",
        memory: BlockMemory | None = None,
        start_B: jax.Array | None = None,
        dropout_key: jax.Array | None = None,
        tap: Tap = no_tap,
    ) -> Any:
        check_shape("residual_BTC", residual_BTC, C=self.config.width)
        check_floating("residual_BTC", residual_BTC)
        attention = MultiHeadAttention(self.config, self.execution, self.stack, name="attention")
        ffn = FeedForward(self.config, self.stack, name="ffn")
        past, source_past = memory or (None, None)

        normed_BTC = tap("ln1", Norm(self.config, name="ln1")(residual_BTC))
        update_BTC, past = _with_memory(
            attention(
                normed_BTC,
                mask=mask,
                rotation=rotation,
                memory=past,
                start_B=start_B,
                dropout_key=dropout_key,
                tap=scoped(tap, "attention"),
            )
        )
        residual_BTC = tap("residual_after_attention", residual_BTC + update_BTC)

        if has_cross_attention(self.config, self.stack):
            residual_BTC, source_past = self._cross(
                residual_BTC, source_BSC, source_mask, source_past, dropout_key, tap
            )

        normed_BTC = tap("ln2", Norm(self.config, name="ln2")(residual_BTC))
        update_BTC = ffn(normed_BTC, dropout_key=dropout_key, tap=scoped(tap, "ffn"))
        residual_BTC = tap("residual_after_ffn", residual_BTC + update_BTC)
        return residual_BTC if memory is None else (residual_BTC, BlockMemory(past, source_past))

    def _cross(
        self,
        residual_BTC: jax.Array,
        source_BSC: jax.Array | None,
        source_mask: Mask | NamedMask,
        memory: KeyValues | None,
        dropout_key: jax.Array | None,
        tap: Tap,
    ) -> tuple[jax.Array, KeyValues | None]:
        if source_BSC is None and memory is None:
            raise RequestError("this block has cross-attention; pass source_BSC, the encoder's output")
        cross = MultiHeadAttention(self.config, self.execution, self.stack, "cross_attention", name="cross_attention")
        normed_BTC = tap("ln_cross", Norm(self.config, name="ln_cross")(residual_BTC))
        update_BTC, memory = _with_memory(
            cross(
                normed_BTC,
                source_BSC=source_BSC,
                mask=source_mask,
                memory=memory,
                start_B=None if source_BSC is None else jnp.zeros(source_BSC.shape[0], jnp.int32),
                dropout_key=dropout_key,
                tap=scoped(tap, "cross_attention"),
            )
        )
        return tap("residual_after_cross_attention", residual_BTC + update_BTC), memory


def _with_memory(result: Any) -> tuple[jax.Array, Any]:
    """Return the pair of a result, which without a memory is no pair."""
    return result if isinstance(result, tuple) else (result, None)


class VocabularyHead(nn.Module):
    """Scores hidden states against the vocabulary: its own kernel, or the token embedding when tied."""

    config: ModelConfig

    @nn.compact
    def __call__(self, hidden_BTC: jax.Array, embedding_VC: jax.Array) -> jax.Array:
        config = self.config
        check_shape("hidden_BTC", hidden_BTC, C=config.width)
        head: Mapping[str, jax.Array] = declare(self, head_specs(config))
        embedding = embedding_VC if config.tied_head else None
        return vocabulary_logits(hidden_BTC, head, embedding, soft_cap=config.logit_soft_cap)


@dataclasses.dataclass(frozen=True)
class _Run:
    """What the stacks of one forward pass share."""

    config: ModelConfig
    execution: ExecutionConfig
    dropout_key: jax.Array | None
    tap: Tap

    def start(self, ids_BT: jax.Array, embedding_VC: jax.Array, table: Params, positions: Any) -> jax.Array:
        """Return residual_0: the tokens' vectors, unscaled, and the positions' where the architecture adds them."""
        residual_BTC = embed(ids_BT, embedding_VC)
        table_TC = table.get("position_embedding")
        if self.config.position == "sinusoidal":
            table_TC = jnp.asarray(sinusoidal_table(self.config.context_length, self.config.width))
        if table_TC is not None:
            T = ids_BT.shape[1]
            residual_BTC = residual_BTC + (table_TC[:T] if positions is None else embed(positions, table_TC))
        residual_BTC = residual_BTC.astype(jnp.dtype(self.execution.compute_dtype))
        key = site_key(layer_key(self.dropout_key, -1), "embedding")
        return self.tap("residual_0", dropout(residual_BTC, self.config.embedding_dropout, key))

    def blocks(
        self,
        stack: Stack,
        layers: int,
        residual_BTC: jax.Array,
        positions: Any,
        memories: Sequence[BlockMemory | None] | None = None,
        **sight: Any,
    ) -> tuple[jax.Array, tuple[BlockMemory | None, ...]]:
        """Run the blocks of a stack; return the residual stream and the blocks' memories.

        The modules belong to whichever module calls.
        """
        turn = None
        if self.config.position == "rope":
            turn = rotation(self.config, jnp.arange(residual_BTC.shape[1]) if positions is None else positions)
        kept = []
        for i, memory in enumerate(memories or [None] * layers):
            block = self._block_class()(self.config, self.execution, stack, name=f"blocks_{i}")
            options = {} if self.tap is no_tap else {"tap": scoped(self.tap, f"blocks_{i}")}
            key = layer_key(self.dropout_key, i)
            result = block(residual_BTC, rotation=turn, memory=memory, dropout_key=key, **sight, **options)
            residual_BTC, memory = _with_memory(result)
            kept.append(memory)
        return residual_BTC, tuple(kept)

    def _block_class(self) -> type[nn.Module]:
        """A tap must see each intermediate once, so blocks are rematerialised only when there is none."""
        return nn.remat(Block) if self.execution.remat and self.tap is no_tap else Block


class Encoder(nn.Module):
    """The encoder of an encoder_decoder: source ids [B,S] -> [B,S,C]; it shares the decoder's token embedding."""

    config: ModelConfig
    execution: ExecutionConfig = ExecutionConfig()

    @nn.compact
    def __call__(
        self,
        source_ids_BS: jax.Array,
        embedding_VC: jax.Array,
        *,
        mask_BS: jax.Array | None = None,
        dropout_key: jax.Array | None = None,
        tap: Tap = no_tap,
    ) -> jax.Array:
        inputs = Inputs(source_ids_BS, mask_BT=mask_BS)
        run = _Run(self.config, self.execution, encoder_key(dropout_key), tap)
        table = declare(self, position_specs(self.config))
        residual_BSC = run.start(source_ids_BS, embedding_VC, table, inputs.positions)
        mask = inputs.mask(masks.full(), self.config.window)
        residual_BSC, _ = run.blocks(
            "encoder", self.config.blocks_in_encoder, residual_BSC, inputs.positions, mask=mask
        )
        return tap("final_hidden", Norm(self.config, name="final_norm")(residual_BSC))


class Transformer(nn.Module):
    """The whole model: embeddings, L blocks, final norm, vocabulary head; ids [B,T] -> logits [B,T,V] in float32.

    Its arguments are those of `jaxgpt.apply`. With `scored_B` it scores one position of each row only, the one of
    that index, and the logits are [B,1,V].

    Example:
        >>> config = ModelConfig.preset("minigpt")
        >>> model = Transformer(config)
        >>> ids_BT = jnp.array([[0, 1], [4, 1]])
        >>> variables = model.init(jax.random.key(0), ids_BT)
        >>> model.apply(variables, ids_BT).shape
        (2, 2, 5)
    """

    config: ModelConfig
    execution: ExecutionConfig = ExecutionConfig()

    @nn.compact
    def __call__(
        self,
        token_ids_BT: jax.Array,
        *,
        source_ids_BS: jax.Array | None = None,
        mask_BT: jax.Array | None = None,
        source_mask_BS: jax.Array | None = None,
        segment_ids_BT: jax.Array | None = None,
        positions_BT: jax.Array | None = None,
        cache: Cache | None = None,
        scored_B: jax.Array | None = None,
        dropout_key: jax.Array | None = None,
        tap: Tap = no_tap,
    ) -> Any:
        config = self.config
        inputs = Inputs(token_ids_BT, mask_BT, segment_ids_BT, positions_BT, source_ids_BS, source_mask_BS, cache)
        check_inputs(config, inputs)
        check_cache(config, self.execution, inputs)
        tables = declare(self, embedding_specs(config))
        embedding_VC = tables["token_embedding"]
        sight: dict[str, Any] = {
            "mask": inputs.mask(masks.full() if config.family == "encoder" else masks.causal(), config.window)
        }
        if config.family == "encoder_decoder":
            sight["source_mask"] = inputs.source_mask
        if source_ids_BS is not None:
            sight["source_BSC"] = Encoder(config, self.execution, name="encoder")(
                source_ids_BS,
                embedding_VC,
                mask_BS=source_mask_BS,
                dropout_key=dropout_key,
                tap=scoped(tap, "encoder"),
            )
        if cache is not None:
            sight |= {"memories": cache.blocks, "start_B": cache.lengths_B}

        run = _Run(config, self.execution, dropout_key, tap)
        residual_BTC = run.start(token_ids_BT, embedding_VC, tables, inputs.positions)
        residual_BTC, memories = run.blocks("main", config.layers, residual_BTC, inputs.positions, **sight)
        if scored_B is not None:
            residual_BTC = jnp.take_along_axis(residual_BTC, scored_B[:, None, None], axis=1)
        final_BTC = tap("final_hidden", Norm(config, name="final_norm")(residual_BTC))
        logits_BTV = tap("logits", VocabularyHead(config, name="lm_head")(final_BTC, embedding_VC))
        if cache is None:
            return logits_BTV
        # Nothing can be raised when the program runs, and a write that begins too late would move back over others.
        fits_B = cache.fits(token_ids_BT.shape[1], mask_BT, config.context_length)
        return jnp.where(fits_B[:, None, None], logits_BTV, jnp.nan), inputs.cache_after(memories)
