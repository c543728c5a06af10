"""Small models as the files that others write, built by hand from the file formats' own descriptions."""

import json
import struct

import ml_dtypes
import numpy as np

GPT2 = {"model_type": "gpt2", "vocab_size": 7, "n_positions": 5, "n_embd": 4, "n_layer": 2, "n_head": 2}
LLAMA = {
    "model_type": "llama", "vocab_size": 7, "max_position_embeddings": 5, "hidden_size": 8, "intermediate_size": 3,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
}  # fmt: skip
DTYPES = {
    "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "F64": np.float64, "I8": np.int8,
}  # fmt: skip


def random_arrays(shapes):
    rng = np.random.default_rng(0)
    return {key: rng.standard_normal(shape).astype(np.float32) for key, shape in shapes.items()}


def gpt2_arrays():
    """Every key of GPT-2 as its first release had them: C 4, F 16, V 7, T 5."""
    shapes = {"wte.weight": (7, 4), "wpe.weight": (5, 4), "ln_f.weight": (4,), "ln_f.bias": (4,)}
    for i in range(2):
        block = {
            "ln_1.weight": (4,), "ln_1.bias": (4,), "attn.c_attn.weight": (4, 12), "attn.c_attn.bias": (12,),
            "attn.c_proj.weight": (4, 4), "attn.c_proj.bias": (4,), "ln_2.weight": (4,), "ln_2.bias": (4,),
            "mlp.c_fc.weight": (4, 16), "mlp.c_fc.bias": (16,), "mlp.c_proj.weight": (16, 4), "mlp.c_proj.bias": (4,),
        }  # fmt: skip
        shapes |= {f"h.{i}.{name}": shape for name, shape in block.items()}
    return random_arrays({f"transformer.{key}": shape for key, shape in shapes.items()})


def llama_arrays():
    """Every key of an untied Llama: C 8, H 4, K 2, D 2, F 3, V 7."""
    shapes = {"model.embed_tokens.weight": (7, 8), "model.norm.weight": (8,), "lm_head.weight": (7, 8)}
    for i in range(2):
        block = {
            "input_layernorm.weight": (8,), "post_attention_layernorm.weight": (8,),
            "self_attn.q_proj.weight": (8, 8), "self_attn.k_proj.weight": (4, 8), "self_attn.v_proj.weight": (4, 8),
            "self_attn.o_proj.weight": (8, 8), "mlp.gate_proj.weight": (3, 8), "mlp.up_proj.weight": (3, 8),
            "mlp.down_proj.weight": (8, 3),
        }  # fmt: skip
        shapes |= {f"model.layers.{i}.{name}": shape for name, shape in block.items()}
    return random_arrays(shapes)


def write_safetensors(path, arrays, dtype="F32"):
    """Write the format by hand: the length of the header (8 bytes), the header (JSON), the arrays."""
    header, data = {}, b""
    for key, array in arrays.items():
        raw = array.astype(DTYPES[dtype]).tobytes()
        header[key] = {"dtype": dtype, "shape": array.shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def same_bits(one, other):
    """Whether two trees agree in structure and in every bit."""
    if not isinstance(one, dict):
        return np.asarray(one).tobytes() == np.asarray(other).tobytes() and one.shape == other.shape
    return one.keys() == other.keys() and all(same_bits(one[key], other[key]) for key in one)
