#!/usr/bin/env bash
# The attention contract suite and the benchmark on a machine with a GPU, within five minutes.
#
# Needs python with jax for CUDA, flax, optax, chex, numpy, pytest and hypothesis; the rest of jaxgpt's dependencies it
# does without.
# PYTHON names another python; OUT is the folder of the record (default bench/results/gpu).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python="${PYTHON:-python3}"
out="${OUT:-bench/results/gpu}"
mkdir -p "$out"
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 XLA_PYTHON_CLIENT_PREALLOCATE=false

status=0
part() { # part NAME SECONDS COMMAND...: run it, keep what it prints in NAME.txt, and its exit status
    local name=$1 seconds=$2
    shift 2
    echo "+ $*"
    timeout "$seconds" "$@" 2>&1 | tee "$out/$name.txt"
    local code=${PIPESTATUS[0]}
    echo "$name: exit $code" | tee -a "$out/summary.txt"
    [ "$code" -eq 0 ] || status=1
}

: > "$out/summary.txt"
# Nothing below is worth its time on a machine where JAX finds no GPU.
part machine 40 "$python" -c '
import importlib.metadata as metadata, jax
device = jax.devices()[0]
print(device.device_kind, device.platform, getattr(device, "compute_capability", ""))
for name in ("jax", "jaxlib", "jax-cuda13-plugin", "jax-cuda12-plugin", "nvidia-cudnn-cu13", "flax", "tokamax"):
    print(name, next((found.version for found in metadata.distributions(name=name)), "not installed"))
assert device.platform == "gpu", "JAX finds no GPU here"
'
[ "$status" -eq 0 ] || { echo "stopped: see $out/machine.txt" >&2; exit 1; }
part choice 30 "$python" -c '
import jax, jaxgpt
for dtype in ("bfloat16", "float32"):
    q = jax.ShapeDtypeStruct((8, 1024, 12, 64), dtype)
    print(dtype, jaxgpt.explain_attention(q, q, q), sep="\n")
'
part contract 120 "$python" -m pytest -o addopts= --import-mode=importlib -m "not ci" -q \
    -p no:cacheprovider tests/promises/test_attention_kernels.py tests/promises/test_attention_transformed.py
part benchmark 100 "$python" -m jaxgpt.benchmark attention --dtype bfloat16 \
    --shapes 8x1024x12x64 2x4096x12x64 --record "$out/attention-gpu.json"
cat "$out/summary.txt"
exit "$status"
