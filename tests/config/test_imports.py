"""Configs and parameter counts need no jax; nothing is set up on import."""

import subprocess
import sys

import pytest

import jaxgpt

HEAVY = {"jax", "jaxlib", "flax", "orbax", "numpy"}
CHECK = "; import sys; print(*{name.split('.')[0] for name in sys.modules})"


@pytest.mark.parametrize(
    "statement",
    [
        "import jaxgpt",
        "import jaxgpt.config",
        "import jaxgpt; dir(jaxgpt); jaxgpt.RunConfig()",
        "import jaxgpt; jaxgpt.count_parameters(jaxgpt.ModelConfig.preset('gpt2'))",
    ],
)
def test_no_heavy_library_is_imported_by(statement):
    child = subprocess.run([sys.executable, "-c", statement + CHECK], capture_output=True, text=True, timeout=60)
    assert child.returncode == 0, child.stderr
    assert "jaxgpt" in child.stdout.split()
    assert HEAVY.isdisjoint(child.stdout.split())


def test_a_config_is_static_for_jax_whichever_is_imported_first():
    statement = "import jax, jaxgpt; config = jaxgpt.ModelConfig(); print(jax.jit(lambda c: c.width)(config))"
    child = subprocess.run([sys.executable, "-c", statement], capture_output=True, text=True, timeout=60)
    assert (child.stdout, child.returncode) == ("128\n", 0), child.stderr


def test_an_unknown_public_name_lists_the_known_ones():
    with pytest.raises(AttributeError, match=r"no attribute 'aply'; it has .*apply"):
        _ = jaxgpt.aply


def test_every_public_name_exists():
    for name in ("ModelConfig", "ExecutionConfig", "RunConfig", "Transformer", "init", "apply", "loss", "attention"):
        assert name in dir(jaxgpt)
        assert getattr(jaxgpt, name) is not None
