"""What the CUDA compiler makes of each attention kernel and of a model, for an H200, on a machine without a GPU.

Forward and gradients in bfloat16: seconds to compile, bytes of temporaries, and whether the kernel is in the program.
No time on a GPU follows from it. It wants an environment of its own (5 GB), with these packages beside jaxgpt's:

python -m venv cuda
cuda/bin/pip install . tokamax "jax-cuda13-plugin<0.11" "jax-cuda13-pjrt<0.11" nvidia-cudnn-cu13 nvidia-cublas \
    nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-runtime nvidia-cuda-cupti nvidia-cuda-nvrtc nvidia-nvjitlink \
    nvidia-cufft nvidia-cusolver nvidia-cusparse nvidia-nccl-cu13
JAX_PLATFORMS=cpu cuda/bin/python bench/cuda_compile.py --record bench/results/cuda-compile.json
"""

import argparse
import json
import shlex
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

import jaxgpt
from jaxgpt.benchmark.machine import environment
from jaxgpt.model.parameters import abstract_parameters

H200 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  shared_memory_per_block: 49152 shared_memory_per_core: 233472 shared_memory_per_block_optin: 232448
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  registers_per_core_limit: 65536 registers_per_block_limit: 65536 cuda_compute_capability { major: 9 }
  memory_bandwidth: 4800000000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98 device_memory_size: 150000000000
}
platform_name: "CUDA" dnn_version_info { major: 9 minor: 10 } runtime_version { major: 13 }
device_description_str: "NVIDIA H200"
"""
MODEL = jaxgpt.ModelConfig(vocab_size=50304, context_length=1024, layers=2, width=768, heads=12)


def compiled(function, arguments, sharding):
    """Return what the compiler says of `function` of arguments of these shapes."""
    placed = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), arguments)
    start = time.perf_counter()
    program = jax.jit(function).lower(*placed).compile()
    seconds = time.perf_counter() - start
    memory = program.memory_analysis()
    return {
        "seconds_to_compile": round(seconds, 1),
        "temporary_bytes": memory.temp_size_in_bytes,
        "argument_bytes": memory.argument_size_in_bytes,
        "output_bytes": memory.output_size_in_bytes,
        "cudnn_calls": program.as_text().count('custom_call_target="__cudnn$fmha'),
    }


def attention_row(kernel, shape, sharding):
    """Return the facts of one kernel's forward and gradients, or why it was refused."""
    B, T, H, D = shape
    qkv = [jax.ShapeDtypeStruct((B, T, H, D), jnp.bfloat16)] * 3

    def gradients(*qkv):
        heads, pull = jax.vjp(lambda *qkv: jaxgpt.attention(*qkv, implementation=kernel, platform="gpu"), *qkv)
        return heads, pull(heads)

    try:
        facts = compiled(gradients, qkv, sharding)
    except jaxgpt.RequestError as error:
        facts = {"refused": str(error)}
    return {"program": "attention", "kernel": kernel, "BxTxHxD": "x".join(map(str, shape))} | facts


def model_row(kernel, sharding):
    """Return the facts of the gradient of a small GPT's loss."""
    execution = jaxgpt.ExecutionConfig(platform="gpu", compute_dtype="bfloat16", attention=kernel)
    ids, weights = (jax.ShapeDtypeStruct((8, MODEL.context_length), dtype) for dtype in ("int32", "float32"))
    batch = {"token_ids_BT": ids, "target_ids_BT": ids, "weights_BT": weights}

    def gradient(params, batch):
        return jax.grad(lambda params: jaxgpt.loss(MODEL, params, batch, execution=execution)[0])(params)

    facts = compiled(gradient, (abstract_parameters(MODEL), batch), sharding)
    return {"program": "gradient of a model's loss", "kernel": kernel, "layers": MODEL.layers} | facts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", default="cudnn,tokamax,blocked,dense", help="of attention, by name")
    parser.add_argument("--shapes", default="8x1024x12x64,2x4096x12x64", help="BxTxHxD, separated by commas")
    parser.add_argument("--models", default="cudnn,dense", help="kernels to compile a model with; empty for none")
    parser.add_argument("--record", type=Path, help="where the JSON record goes")
    options = parser.parse_args()
    target = topologies.get_topology_desc(
        platform="cuda", topology_name="H200", target_config=H200, topology="1x1x1"
    ).devices[0]
    sharding = SingleDeviceSharding(target)
    with jax.default_device(target):
        rows = []
        for shape in (tuple(map(int, text.split("x"))) for text in options.shapes.split(",")):
            rows += [attention_row(kernel, shape, sharding) for kernel in options.kernels.split(",")]
        rows += [model_row(kernel, sharding) for kernel in options.models.split(",") if kernel]
    for row in rows:
        print(json.dumps(row))
    if options.record:
        record = {
            "command": shlex.join(["python", *sys.argv]),
            "compiled_for": target.device_kind,
            "environment": environment(),
            "rows": rows,
        }
        options.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
