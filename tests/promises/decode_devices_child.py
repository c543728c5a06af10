"""Prints, from a process with 8 CPU devices, what generation on a mesh gives beside one device; see the test."""

import json
import os
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import jax
from jax.sharding import AxisType
from small_models import ARCHITECTURES, random_ids, random_parameters

import jaxgpt

CONFIG = ARCHITECTURES["llama-like"].replace(context_length=40)  # 2 key heads
PARAMS = random_parameters(CONFIG)
PROMPTS = [random_ids(CONFIG, 1, length, length)[0].tolist() for length in (1, 5, 3, 7)]


def continued():
    return jaxgpt.generate(CONFIG, PARAMS, PROMPTS, max_new_tokens=12, key=jax.random.key(1)).ids


def spec_of_cache():
    return [str(part) for part in jaxgpt.make_cache(CONFIG, 4, 8).blocks[0].attention.k.sharding.spec]


one = continued()
mesh = jax.make_mesh((4, 2), ("data", "tensor"), axis_types=(AxisType.Auto,) * 2)
with jax.set_mesh(mesh):
    print(json.dumps({"devices": len(jax.devices()), "one": one, "eight": continued(), "spec": spec_of_cache()}))
