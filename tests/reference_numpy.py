"""The GPT in float64 NumPy, written from the formulas: the yardstick, sharing no code with jaxgpt."""

import math

import numpy as np

_erf = np.vectorize(math.erf, otypes=[np.float64])


def float64(tree):
    """Return a parameter tree, or an array, in float64."""
    if isinstance(tree, dict):
        return {name: float64(entry) for name, entry in tree.items()}
    return np.asarray(tree, np.float64)


def gelu(x, kind):
    if kind == "exact":
        return 0.5 * x * (1 + _erf(x / math.sqrt(2)))
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def activation(x, config):
    if config.ffn == "relu":
        return np.maximum(x, 0)
    return x / (1 + np.exp(-x)) if config.ffn == "swiglu" else gelu(x, config.gelu)


def layer_norm(x, scale, bias, epsilon):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * scale + (0.0 if bias is None else bias)


def rms_norm(x, scale, bias, epsilon):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * scale + (0.0 if bias is None else bias)


def softmax(scores):
    """Rows of -inf alone give zeros."""
    largest = scores.max(-1, keepdims=True)
    exponentials = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    return exponentials / np.maximum(exponentials.sum(-1, keepdims=True), 1e-300)


def visible(mask, T, S):
    """Row t of the last T positions sees keys 0 .. S - T + t; under the full mask, all; an array is itself."""
    if not isinstance(mask, str):
        return mask
    see = np.ones((T, S), bool)
    if mask == "causal":
        for t in range(T):
            see[t, S - T + t + 1 :] = False
    return see


def for_each_head(x, heads):
    """Repeat each key head for the query heads that it serves: heads h of group h // (H/K)."""
    group = heads // x.shape[2]
    return np.stack([x[:, :, h // group] for h in range(heads)], 2)


def attention_scores(q, k, scale, soft_cap=None):
    scores = scale * np.einsum("bthd,bshd->bhts", q, for_each_head(k, q.shape[2]))
    return scores if soft_cap is None else soft_cap * np.tanh(scores / soft_cap)


def attention_weights(q, k, mask, scale, soft_cap=None):
    see = visible(mask, q.shape[1], k.shape[1])
    return softmax(np.where(see, attention_scores(q, k, scale, soft_cap), -np.inf))


def attention(q, k, v, mask, scale, *, soft_cap=None, kept=1.0):
    """Heads [B,T,H,D]; `kept` [B,H,T,S] is what dropout multiplies each weight by: 0 or 1 / (1 - rate)."""
    weights = kept * attention_weights(q, k, mask, scale, soft_cap)
    return np.einsum("bhts,bshd->bthd", weights, for_each_head(v, q.shape[2]))


def attention_gradients(q, k, v, mask, scale, out, *, soft_cap=None, kept=1.0):
    """Gradients of sum(out * attention(q, k, v)) with respect to q, k and v, by the chain rule."""
    (B, S, K, D), H = k.shape, q.shape[2]
    weights = attention_weights(q, k, mask, scale, soft_cap)
    d_weights = kept * np.einsum("bthd,bshd->bhts", out, for_each_head(v, H))
    d_scores = weights * (d_weights - (d_weights * weights).sum(-1, keepdims=True))
    if soft_cap is not None:
        d_scores = d_scores * (1 - (attention_scores(q, k, scale, soft_cap) / soft_cap) ** 2)
    d_q = scale * np.einsum("bhts,bshd->bthd", d_scores, for_each_head(k, H))
    d_k = scale * np.einsum("bhts,bthd->bshd", d_scores, q)
    d_v = np.einsum("bhts,bthd->bshd", kept * weights, out)
    return d_q, *(d.reshape(B, S, K, H // K, D).sum(3) for d in (d_k, d_v))


def project(x, params, spec):
    return np.einsum(spec, x, params["kernel"]) + params.get("bias", 0.0)


def rotate(x, positions, config):
    """Turn pair i of position p by p theta^(-2i/D), as multiplication of complex numbers; no stretching."""
    D = x.shape[-1]
    turn = np.exp(1j * positions[..., None, None] * config.rope_theta ** (-np.arange(0, D, 2) / D))
    if config.rope_pairing == "interleaved":
        turned = (x[..., ::2] + 1j * x[..., 1::2]) * turn
        return np.stack([turned.real, turned.imag], -1).reshape(x.shape)
    turned = (x[..., : D // 2] + 1j * x[..., D // 2 :]) * turn
    return np.concatenate([turned.real, turned.imag], -1)


class _Forward:
    """The formulas of one architecture, in the order of the tree."""

    def __init__(self, config):
        self.config = config

    def norm(self, x, p):
        norm = rms_norm if self.config.norm == "rmsnorm" else layer_norm
        return norm(x, p["scale"], p.get("bias"), self.config.norm_epsilon)

    def attention(self, x, source, p, see, positions):
        config = self.config
        q, k, v = (project(y, p[n], "btc,chd->bthd") for y, n in ((x, "q"), (source, "k"), (source, "v")))
        if config.qk_norm:
            q, k = (rms_norm(y, p[n]["scale"], None, config.norm_epsilon) for y, n in ((q, "q_norm"), (k, "k_norm")))
        if config.position == "rope" and positions is not None:
            q, k = rotate(q, positions, config), rotate(k, positions, config)
        heads = attention(q, k, v, see, 1 / math.sqrt(q.shape[-1]))
        return project(heads, p["out"], "bthd,hdc->btc")

    def ffn(self, x, p):
        up = project(x, p["up"], "btc,cf->btf")
        if "gate" in p:
            return project(
                activation(project(x, p["gate"], "btc,cf->btf"), self.config) * up, p["down"], "btf,fc->btc"
            )
        return project(activation(up, self.config), p["down"], "btf,fc->btc")

    def stack(self, ids, embedding, p, real, causal, source=None, source_real=None):
        config, T = self.config, ids.shape[1]
        positions = np.maximum(np.cumsum(real, 1) - 1, 0)
        x = embedding[ids]
        if config.position == "learned":
            x = x + p["position_embedding"][positions]
        if config.position == "sinusoidal":
            angle = positions[..., None] / 10000 ** (np.arange(config.width) // 2 * 2 / config.width)
            x = x + np.where(np.arange(config.width) % 2, np.cos(angle), np.sin(angle))
        distance = np.arange(T)[:, None] - np.arange(T)
        see = (distance >= 0) | (not causal)
        if config.window is not None:
            see = see & (abs(distance) < config.window)
        see = (see & real[:, None, :])[:, None]
        for i in range(sum(name.startswith("blocks_") for name in p)):
            block = p[f"blocks_{i}"]
            y = self.norm(x, block["ln1"])
            x = x + self.attention(y, y, block["attention"], see, positions)
            if source is not None:
                see_source = source_real[:, None, None, :]
                y = self.norm(x, block["ln_cross"])
                x = x + self.attention(y, source, block["cross_attention"], see_source, None)
            x = x + self.ffn(self.norm(x, block["ln2"]), block["ffn"])
        return self.norm(x, p["final_norm"])


def forward(config, params, ids, mask=None, source=None, source_mask=None):
    """Return the logits of every position of a batch of ids, [B,T,V]; masks are true at real tokens."""
    params = float64(params)
    embedding, model = params["token_embedding"], _Forward(config)

    def real(mask, ids):
        return np.ones(ids.shape, bool) if mask is None else mask

    states, source_real = None, None
    if config.family == "encoder_decoder":
        source_real = real(source_mask, source)
        states = model.stack(source, embedding, params["encoder"], source_real, causal=False)
    causal = config.family != "encoder"
    x = model.stack(ids, embedding, params, real(mask, ids), causal, states, source_real)
    head = params.get("lm_head", {})
    logits = x @ head.get("kernel", embedding.T) + head.get("bias", 0.0)
    cap = config.logit_soft_cap
    return logits if cap is None else cap * np.tanh(logits / cap)


def token_nats(logits, targets):
    """Return -log softmax(logits)[target], position by position."""
    log_sum = logits.max(-1) + np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1))
    return log_sum - np.take_along_axis(logits, targets[..., None], -1)[..., 0]


def relative_error(got, wanted):
    """Return the largest difference over the largest wanted value."""
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    assert got.shape == wanted.shape
    return np.abs(got - wanted).max() / max(np.abs(wanted).max(), 1e-30)


def tree_error(got, wanted):
    """Return the largest difference over all leaves, over the largest wanted value of all."""
    pairs = [(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in zip(got, wanted, strict=True)]
    assert all(a.shape == b.shape for a, b in pairs)
    return max(np.abs(a - b).max() for a, b in pairs) / max(np.abs(b).max() for _, b in pairs)
