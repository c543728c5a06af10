"""Flax Linen modules: they declare parameters from the specs and call the pure functions of `ops`.

Each is a pure block over its own subtree: `Block(config).apply({"params": params["blocks_0"]}, x_BTC)`.
"""

from __future__ import annotations

from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxgpt.config import ExecutionConfig, ModelConfig, RequestError
from jaxgpt.ops.attention import Mask, multi_head_attention
from jaxgpt.ops.contracts import check_floating, check_shape, check_token_ids
from jaxgpt.ops.dropout import dropout, layer_key, site_key
from jaxgpt.ops.embedding import embed, vocabulary_logits
from jaxgpt.ops.feedforward import feed_forward
from jaxgpt.ops.norm import layer_norm
from jaxgpt.ops.taps import Tap, no_tap, scoped

from .parameters import Params, draw, map_specs, path_number
from .specs import ParamSpec, SpecTree, attention_specs, embedding_specs, ffn_specs, head_specs, norm_specs


def declare(module: nn.Module, specs: SpecTree) -> Params:
    """Declare the parameters of `specs` in a Linen module and return them, one entry per name."""
    return {name: module.param(name, _initializer(entry)) for name, entry in specs.items()}


def _initializer(entry: ParamSpec | SpecTree):
    def initialize(key: jax.Array):
        if isinstance(entry, ParamSpec):
            return draw(entry, key)
        return map_specs(lambda path, spec: draw(spec, jax.random.fold_in(key, path_number(path))), entry)

    return initialize


class LayerNorm(nn.Module):
    """Layer norm with population variance; parameters `scale` and, by choice, `bias`."""

    config: ModelConfig

    @nn.compact
    def __call__(self, x_BTC: jax.Array) -> jax.Array:
        check_shape("x_BTC", x_BTC, C=self.config.width)
        params = declare(self, norm_specs(self.config))
        return layer_norm(x_BTC, params["scale"], params.get("bias"), epsilon=self.config.norm_epsilon)


class MultiHeadAttention(nn.Module):
    """Causal multi-head self-attention; returns the update for the residual stream, [B,T,C]."""

    config: ModelConfig
    execution: ExecutionConfig = ExecutionConfig()

    @nn.compact
    def __call__(
        self,
        x_BTC: jax.Array,
        *,
        mask: Mask = "causal",
        dropout_key: jax.Array | None = None,
        tap: Tap = no_tap,
    ) -> jax.Array:
        check_shape("x_BTC", x_BTC, C=self.config.width)
        update_BTC = multi_head_attention(
            x_BTC,
            declare(self, attention_specs(self.config)),
            mask=mask,
            implementation=self.execution.attention,
            dropout_rate=self.config.attention_dropout,
            dropout_key=site_key(dropout_key, "attention_weights"),
            tap=tap,
        )
        key = site_key(dropout_key, "attention_update")
        return tap("update", dropout(update_BTC, self.config.residual_dropout, key))


class FeedForward(nn.Module):
    """The position-wise network C -> F -> C; returns the update for the residual stream, [B,T,C]."""

    config: ModelConfig

    @nn.compact
    def __call__(self, x_BTC: jax.Array, *, dropout_key: jax.Array | None = None, tap: Tap = no_tap) -> jax.Array:
        check_shape("x_BTC", x_BTC, C=self.config.width)
        params = declare(self, ffn_specs(self.config))
        update_BTC = feed_forward(x_BTC, params, gelu_kind=self.config.gelu, tap=tap)
        key = site_key(dropout_key, "ffn_update")
        return tap("update", dropout(update_BTC, self.config.residual_dropout, key))


class Block(nn.Module):
    """A pre-norm block: x + attention(ln1(x)), then + ffn(ln2(.)); [B,T,C] -> [B,T,C]."""

    config: ModelConfig
    execution: ExecutionConfig = ExecutionConfig()

    @nn.compact
    def __call__(
        self,
        residual_BTC: jax.Array,
        *,
        mask: Mask = "causal",
        dropout_key: jax.Array | None = None,
        tap: Tap = no_tap,
    ) -> jax.Array:
        check_shape("residual_BTC", residual_BTC, C=self.config.width)
        check_floating("residual_BTC", residual_BTC)
        attention = MultiHeadAttention(self.config, self.execution, name="attention")
        ffn = FeedForward(self.config, name="ffn")

        normed_BTC = tap("ln1", LayerNorm(self.config, name="ln1")(residual_BTC))
        update_BTC = attention(normed_BTC, mask=mask, dropout_key=dropout_key, tap=scoped(tap, "attention"))
        residual_BTC = tap("residual_after_attention", residual_BTC + update_BTC)

        normed_BTC = tap("ln2", LayerNorm(self.config, name="ln2")(residual_BTC))
        update_BTC = ffn(normed_BTC, dropout_key=dropout_key, tap=scoped(tap, "ffn"))
        return tap("residual_after_ffn", residual_BTC + update_BTC)


class VocabularyHead(nn.Module):
    """Scores hidden states against the vocabulary: its own kernel, or the token embedding when tied."""

    config: ModelConfig

    @nn.compact
    def __call__(self, hidden_BTC: jax.Array, embedding_VC: jax.Array) -> jax.Array:
        check_shape("hidden_BTC", hidden_BTC, C=self.config.width)
        head: Mapping[str, jax.Array] = declare(self, head_specs(self.config))
        return vocabulary_logits(hidden_BTC, head, embedding_VC if self.config.tied_head else None)


class Transformer(nn.Module):
    """The GPT: embeddings, L blocks, final norm, vocabulary head; ids [B,T] -> logits [B,T,V] in float32.

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
        self, token_ids_BT: jax.Array, *, dropout_key: jax.Array | None = None, tap: Tap = no_tap
    ) -> jax.Array:
        self._check_ids(token_ids_BT)
        tables = declare(self, embedding_specs(self.config))
        residual_BTC = tap("residual_0", self._embed(tables, token_ids_BT, dropout_key))
        for i in range(self.config.layers):
            block = self._block_class(tap)(self.config, self.execution, name=f"blocks_{i}")
            options = {} if tap is no_tap else {"tap": scoped(tap, f"blocks_{i}")}
            residual_BTC = block(residual_BTC, dropout_key=layer_key(dropout_key, i), **options)
        final_BTC = tap("final_hidden", LayerNorm(self.config, name="final_norm")(residual_BTC))
        head = VocabularyHead(self.config, name="lm_head")
        return tap("logits", head(final_BTC, tables["token_embedding"]))

    def _check_ids(self, token_ids_BT: jax.Array) -> None:
        check_token_ids("token_ids_BT", token_ids_BT)
        T, limit = token_ids_BT.shape[1], self.config.context_length
        if limit < T:
            raise RequestError(
                f"token_ids_BT has {T} positions, but model.context_length is {limit}; "
                f"pass at most the last {limit} ids (ids[:, -{limit}:]), or build a model with a longer context"
            )

    def _embed(self, tables: Params, ids_BT: jax.Array, dropout_key: jax.Array | None) -> jax.Array:
        residual_BTC = embed(ids_BT, tables["token_embedding"])
        if "position_embedding" in tables:
            residual_BTC = residual_BTC + tables["position_embedding"][: ids_BT.shape[1]]
        residual_BTC = residual_BTC.astype(jnp.dtype(self.execution.compute_dtype))
        key = site_key(layer_key(dropout_key, -1), "embedding")
        return dropout(residual_BTC, self.config.embedding_dropout, key)

    def _block_class(self, tap: Tap) -> type[nn.Module]:
        """A tap must see each intermediate once, so blocks are rematerialised only when there is none."""
        return nn.remat(Block) if self.execution.remat and tap is no_tap else Block
