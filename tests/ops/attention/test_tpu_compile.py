"""The TPU's own compiler takes the kernel that `auto` picks there, forward and backward, alone and in a model."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from peering import peer

pytestmark = pytest.mark.ci  # a quarter of a minute of compilation for each topology

CHILD = Path(__file__).with_name("tpu_child.py")
TOPOLOGIES = {"v5e:2x2": ("v5litepod-4", 4), "v5p:2x2x1": ("v5p-8", 4), "v6e:2x4": ("v6e-8", 8)}
SQUARE = 8 * 4 * 2048**2  # numbers in a table of every query and key, more than a chip keeps beside its cores
NO_TPU = {"TPU_SKIP_MDS_QUERY": "1", "TPU_WORKER_HOSTNAMES": "localhost", "JAX_PLATFORMS": "cpu"}


@functools.cache
def compiled_for(topology):
    """What the compiler says of a topology, in a process that has the compiler's variables."""
    peer("libtpu", "JAXGPT_TPU_COMPILER")
    environment = os.environ | NO_TPU | {"TPU_ACCELERATOR_TYPE": TOPOLOGIES[topology][0]}
    command = [sys.executable, CHILD, topology]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module", params=TOPOLOGIES)
def topology(request):
    return request.param


@pytest.fixture(scope="module")
def report(topology):
    return compiled_for(topology)


def test_the_topology_is_the_one_asked_for(report, topology):
    assert report["devices"] == TOPOLOGIES[topology][1]
    assert report["kind"].startswith("TPU v")


def test_auto_is_splash_forward_and_backward(report):
    assert report["chosen"] == "splash"
    assert report["auto"]["kernels"] == 3


def test_no_table_of_every_query_and_key_is_made(report):
    assert report["auto"]["largest"] < SQUARE / 2
    assert report["dense"]["largest"] >= SQUARE


def test_temporary_memory_is_far_below_that_of_dense(report):
    assert report["dense"]["temporary bytes"] > SQUARE * 2
    assert report["auto"]["temporary bytes"] < report["dense"]["temporary bytes"] / 4


def test_in_a_model_each_device_runs_the_kernel_on_its_own_rows(report):
    assert report["model"]["kernels"] == 3 * 2
    assert report["model"]["rows"] == [2]
    assert report["model"]["gathers"] == 0


def test_a_decode_step_is_compiled_without_a_kernel(report):
    assert report["decode"]["kernels"] == 0
