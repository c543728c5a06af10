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


def layer_norm(x, scale, bias, epsilon):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * scale + (0.0 if bias is None else bias)


def softmax(scores):
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def visible(mask, T, S):
    """Row t of the last T positions sees keys 0 .. S - T + t; under the full mask, all."""
    see = np.ones((T, S), bool)
    if mask == "causal":
        for t in range(T):
            see[t, S - T + t + 1 :] = False
    return see


def attention_weights(q, k, mask, scale):
    scores = scale * np.einsum("bthd,bshd->bhts", q, k)
    return softmax(np.where(visible(mask, q.shape[1], k.shape[1]), scores, -np.inf))


def attention(q, k, v, mask, scale):
    return np.einsum("bhts,bshd->bthd", attention_weights(q, k, mask, scale), v)


def attention_gradients(q, k, v, mask, scale, out):
    """Gradients of sum(out * attention(q, k, v)) with respect to q, k and v, by the chain rule."""
    weights = attention_weights(q, k, mask, scale)
    d_weights = np.einsum("bthd,bshd->bhts", out, v)
    d_scores = weights * (d_weights - (d_weights * weights).sum(-1, keepdims=True))
    d_q = scale * np.einsum("bhts,bshd->bthd", d_scores, k)
    d_k = scale * np.einsum("bhts,bthd->bshd", d_scores, q)
    return d_q, d_k, np.einsum("bhts,bthd->bshd", weights, out)


def project(x, params, spec):
    return np.einsum(spec, x, params["kernel"]) + params.get("bias", 0.0)


def forward(config, params, ids):
    """Return the logits of every position of a batch of ids, [B,T,V]."""
    params = float64(params)

    def norm(x, p):
        return layer_norm(x, p["scale"], p.get("bias"), config.norm_epsilon)

    x = params["token_embedding"][ids]
    if "position_embedding" in params:
        x = x + params["position_embedding"][: ids.shape[1]]
    for i in range(config.layers):
        block = params[f"blocks_{i}"]
        q, k, v = (project(norm(x, block["ln1"]), block["attention"][n], "btc,chd->bthd") for n in "qkv")
        heads = attention(q, k, v, "causal", 1 / math.sqrt(config.width // config.heads))
        x = x + project(heads, block["attention"]["out"], "bthd,hdc->btc")
        hidden = gelu(project(norm(x, block["ln2"]), block["ffn"]["up"], "btc,cf->btf"), config.gelu)
        x = x + project(hidden, block["ffn"]["down"], "btf,fc->btc")
    x = norm(x, params["final_norm"])
    head = params.get("lm_head", {})
    return x @ head.get("kernel", params["token_embedding"].T) + head.get("bias", 0.0)


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
