"""Compile attention and a model for the TPU topology that argv names, and print what the compiler says, as JSON."""

import json
import math
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import hlo
import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

import jaxgpt
from jaxgpt.model.parameters import abstract_parameters

B, T, H, D = 8, 2048, 4, 64
MODEL = jaxgpt.ModelConfig(vocab_size=256, context_length=512, layers=2, width=256, heads=4)


def shaped(*sizes, dtype="bfloat16", at=None):
    return jax.ShapeDtypeStruct(sizes, dtype, sharding=at)


def facts(compiled):
    """Bytes of temporaries, calls of a Pallas kernel, elements of the largest array, rows of the kernels' results."""
    text = compiled.as_text()
    calls = [line for line in text.splitlines() if 'custom_call_target="tpu_custom_call"' in line]
    return {
        "temporary bytes": hlo.temporary_bytes(compiled),
        "kernels": len(calls),
        "largest": math.prod(hlo.largest_shape(compiled)),
        "gathers": text.count("all-gather("),
        "rows": sorted({int(rows) for line in calls for rows in re.findall(r"bf16\[(\d+),4,512,64\]", line)}),
    }


def attention_gradient(implementation, device):
    def summed(*qkv):
        return jaxgpt.attention(*qkv, implementation=implementation, platform="tpu").astype(jnp.float32).sum()

    arrays = [shaped(B, T, H, D, at=SingleDeviceSharding(device))] * 3
    return facts(jax.jit(jax.value_and_grad(summed, (0, 1, 2))).lower(*arrays).compile())


def model_gradient(mesh):
    execution = jaxgpt.ExecutionConfig(platform="tpu", compute_dtype="bfloat16")
    rows = NamedSharding(mesh, PartitionSpec("data"))
    ids = shaped(2 * mesh.size, 512, dtype="int32", at=rows)
    batch = {"token_ids_BT": ids, "target_ids_BT": ids, "weights_BT": shaped(*ids.shape, dtype="float32", at=rows)}
    whole = NamedSharding(mesh, PartitionSpec())
    params = jax.tree.map(lambda x: shaped(*x.shape, dtype=x.dtype, at=whole), abstract_parameters(MODEL))
    with jax.set_mesh(mesh):
        gradient = jax.jit(jax.grad(lambda params, batch: jaxgpt.loss(MODEL, params, batch, execution=execution)[0]))
        return facts(gradient.lower(params, batch).compile())


def decode_step(device):
    one, past = (shaped(8, n, H, D, at=SingleDeviceSharding(device)) for n in (1, 1024))
    step = jax.jit(lambda *qkv: jaxgpt.attention(*qkv, platform="tpu"))
    return facts(step.lower(one, past, past).compile())


topology = topologies.get_topology_desc(platform="tpu", topology_name=sys.argv[1])
first = topology.devices[0]
report = {
    "devices": len(topology.devices),
    "kind": first.device_kind,
    "chosen": jaxgpt.explain_attention(*[shaped(B, T, H, D)] * 3, platform="tpu").kernel,
    "auto": attention_gradient("auto", first),
    "dense": attention_gradient("dense", first),
    "model": model_gradient(Mesh(topology.devices, ("data",))),
    "decode": decode_step(first),
}
print(json.dumps(report))
