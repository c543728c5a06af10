"""Attention kernels on 8 CPU devices; prints what is wrong with each. Run by test_attention_devices.py.

How work is divided does not depend on how well its loops are compiled, so that is done quickly.
"""

import json
import sys
from pathlib import Path

import jax

jax.config.update("jax_num_cpu_devices", 8)
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attention_cases import CASES, attends, failures, gradients_of, kept, refusal  # noqa: E402
from jax.sharding import AxisType, NamedSharding, PartitionSpec  # noqa: E402
from program import QUICK  # noqa: E402

from jaxgpt.config import RequestError  # noqa: E402
from jaxgpt.ops.attention import KERNELS  # noqa: E402

MESH = jax.make_mesh((4, 2), ("data", "tensor"), axis_types=(AxisType.Auto,) * 2)
HEADS = PartitionSpec("data", None, "tensor", None)
ROWS = PartitionSpec("data")
SOME = (
    "square causal",
    "no block divides the length, windowed",
    "window, packed and padded",
    "lengths, one of them 0",
    "a few queries, windowed, of a ragged past",
    "three rows, one of them empty",
    "dropout",
)


def divided(x, spec):
    """Where an array lies: along the mesh axes of `spec` that divide it evenly."""
    axes = zip(x.shape, (*spec, *(None,) * (x.ndim - len(spec))), strict=True)
    return NamedSharding(
        MESH, PartitionSpec(*(name if name and n % MESH.shape[name] == 0 else None for n, name in axes))
    )


def placed(tree, spec):
    """The arrays on the devices."""
    return jax.tree.map(lambda x: jax.device_put(x, divided(x, spec)), tree)


def with_a_mesh(case, names, inputs):
    """The mesh is in place, as in a train step: each device works on rows and heads of its own."""
    arrays = placed({name: x for name, x in case.arrays.items() if name != "dropout_key"}, ROWS)
    with jax.set_mesh(MESH):
        return compiled(case, names)(case.arrays | arrays, *placed(inputs, HEADS))


def by_its_arguments(case, names, inputs):
    """No mesh is in place: the program only gets arguments that lie on several devices."""
    return compiled(case, names)(case.arrays, *placed(inputs, HEADS))


def inside_shard_map(case, names, inputs):
    """Somebody else has divided the rows, and attention runs on the part of each device."""
    mesh = jax.sharding.Mesh(MESH.devices[:, 0], ("data",))
    program = jax.shard_map(by_name(case, names), mesh=mesh, in_specs=ROWS, out_specs=ROWS)
    return jax.jit(program, compiler_options=QUICK)(case.arrays, *inputs)


def by_name(case, names):
    """Several kernels: (arrays, q, k, v, out) -> heads and gradients of each."""
    return lambda arrays, *inputs: {name: gradients_of(attends(case, name, arrays), *inputs) for name in names}


def compiled(case, names):
    """One program of several kernels."""
    return jax.jit(by_name(case, names), compiler_options=QUICK)


def outcomes(case_name, way):
    """For each kernel what is wrong, and on how many devices its heads lie in parts of their own, or its refusal."""
    case = CASES[case_name].doubled
    inputs = case.inputs()
    refused = {name: refused_by(case, name, way, inputs) for name in KERNELS if refusal(name, case_name)}
    got = way(case, [name for name in KERNELS if name not in refused], inputs)
    right = {
        name: {"wrong": failures(case, inputs, results, kept(case, inputs, name)), "parts": parts(results[0])}
        for name, results in got.items()
    }
    return refused | right


def refused_by(case, name, way, inputs):
    try:
        way(case, [name], inputs)
    except RequestError as error:
        return {"refused": str(error)}
    return {"wrong": ["was not refused"]}


def parts(heads):
    return len({str(index) for index in heads.sharding.devices_indices_map(heads.shape).values()})


def has_rows_of_its_own(case):
    """Inside shard_map rows have to divide, and a key would draw the same weights on each device."""
    return case.doubled.B % MESH.shape["data"] == 0 and not case.dropout


report = {
    "with_a_mesh": {case_name: outcomes(case_name, with_a_mesh) for case_name in CASES},
    "by_its_arguments": {case_name: outcomes(case_name, by_its_arguments) for case_name in SOME},
    "inside_shard_map": {
        case_name: outcomes(case_name, inside_shard_map)
        for case_name in SOME
        if has_rows_of_its_own(CASES[case_name])
    },
}
print(json.dumps({"devices": len(jax.devices()), **report}))
