"""The benchmark runs where what only training needs is not installed."""

import subprocess
import sys

WITHOUT = """
import importlib, pkgutil, sys
for name in ("grain", "tensorboardX", "tyro", "torch", "matplotlib", "tokenizers", "tiktoken"):
    sys.modules[name] = None  # importing it fails
import jaxgpt.benchmark
for info in pkgutil.walk_packages(jaxgpt.benchmark.__path__, "jaxgpt.benchmark."):
    importlib.import_module(info.name)
from jaxgpt.cli import main
main(["bench", "attention", "--contestants", "none"])
"""


def test_it_imports_nothing_of_data_training_and_runs_that_is_not_there():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("jaxgpt: unknown contestant 'none'")
