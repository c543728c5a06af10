"""Attention kernels on 8 CPU devices; prints what is wrong with each. Run by test_attention_devices.py."""

import json
import sys
from pathlib import Path

import jax

jax.config.update("jax_num_cpu_devices", 8)
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np  # noqa: E402
from attention_cases import Case, attends, documents, failures, gradients_of, kept, real  # noqa: E402
from jax.sharding import AxisType, NamedSharding, PartitionSpec  # noqa: E402

from jaxgpt.config import RequestError  # noqa: E402
from jaxgpt.ops.attention import KERNELS  # noqa: E402

MESH = jax.make_mesh((4, 2), ("data", "tensor"), axis_types=(AxisType.Auto,) * 2)
SPLIT = NamedSharding(MESH, PartitionSpec("data", None, "tensor", None))
PACKED = documents([3, 5], [8], [1, 7], [2, 6])
CASES = {
    "causal": Case(B=4),
    "several blocks": Case(B=4, T=140, S=140, window=50),
    "padded": Case(B=4, real=real(8, (3, 8), (0, 8), (0, 4), (7, 8))),
    "packed": Case(B=4, window=3, segments=(PACKED, PACKED)),
    "lengths and offsets by row": Case(
        B=4, T=2, lengths=np.array([8, 3, 0, 5]), offset=np.array([6, 1, 0, 3]), soft_cap=2.0
    ),
    "a long past": Case(B=4, T=2, S=300, lengths=np.array([70, 3, 0, 200]), offset=np.array([68, 1, 0, 198])),
    "one key head, which two devices cannot share": Case(B=4, T=2, K=1),
    "three rows, which four devices cannot share": Case(B=3, T=2, lengths=np.array([8, 3, 0])),
    "dropout": Case(B=4, dropout=0.4),
}


def with_a_mesh(case, name, inputs):
    """The mesh is in place, as in a train step: each device works on rows and heads of its own."""
    arrays = case.arrays
    with jax.set_mesh(MESH):
        return jax.jit(lambda arrays, *inputs: gradients_of(attends(case, name, arrays), *inputs))(arrays, *inputs)


def by_its_arguments(case, name, inputs):
    """No mesh is in place: the program only gets arguments that lie on several devices."""
    splits = [[spec if x.shape[i] % MESH.shape[spec or "data"] == 0 or spec is None else None
               for i, spec in enumerate(SPLIT.spec)] for x in inputs]  # fmt: skip
    shardings = tuple(NamedSharding(MESH, PartitionSpec(*split)) for split in splits)
    program = jax.jit(lambda *inputs: gradients_of(attends(case, name), *inputs), in_shardings=shardings)
    return program(*inputs)


def inside_shard_map(case, name, inputs):
    """Somebody else has divided the rows, and attention runs on the part of each device."""
    rows = PartitionSpec("data")
    program = jax.shard_map(
        lambda arrays, *inputs: gradients_of(attends(case, name, arrays), *inputs),
        mesh=jax.sharding.Mesh(MESH.devices[:, 0], ("data",)), in_specs=rows, out_specs=rows,
    )  # fmt: skip
    return jax.jit(program)(case.arrays, *inputs)


def outcome(case, name, way):
    """What is wrong, and on how many devices the heads lie in parts of their own."""
    inputs = case.inputs()
    try:
        got = way(case, name, inputs)
    except RequestError as refused:
        return {"refused": str(refused)}
    parts = {str(index) for index in got[0].sharding.devices_indices_map(got[0].shape).values()}
    return {"wrong": failures(case, inputs, got, kept(case, inputs, name)), "parts": len(parts)}


def cases_of(way):
    """Inside shard_map rows have to divide, and a key would draw the same weights on each device."""
    return [name for name, case in CASES.items() if way is not inside_shard_map or (case.B == 4 and not case.dropout)]


report = {
    way.__name__: {name: {case: outcome(CASES[case], name, way) for case in cases_of(way)} for name in KERNELS}
    for way in (with_a_mesh, by_its_arguments, inside_shard_map)
}
print(json.dumps({"devices": len(jax.devices()), **report}))
