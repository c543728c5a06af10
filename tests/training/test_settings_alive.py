"""Every setting of data, optimizer, train and mesh changes something that a short run shows, or is refused."""

import re

import pytest
from repeatable import repeatable_metrics
from small_training import TEXT

from jaxgpt.config import RequestError, RunConfig
from jaxgpt.training.run import train

pytestmark = pytest.mark.ci  # two minutes of compilation

SHORT = {
    "train.steps": 4,
    "train.eval_every": 2,
    "train.save_every": 3,
    "train.keep_checkpoints": 9,
    "train.sample_tokens": 0,
}

# setting -> (another value, where the difference shows)
CHANGES = {
    "data.path": (None, "metrics"),
    "data.tokenizer": ("bytes", "metrics"),
    "data.weights": ([1.0, 2.0], "refusal"),  # of several files: test_sources
    "data.format": ("uint16", "refusal"),  # a text has no tokenizer to read ids with
    "data.validation_fraction": (0.3, "metrics"),
    "data.validation_path": ("another", "metrics"),
    "data.pack_documents": (True, "refusal"),  # of a text; of ids: test_sources
    "data.mask_rate": (0.3, "refusal"),  # for an encoder: test_families
    "optimizer.learning_rate": (0.01, "metrics"),
    "optimizer.final_learning_rate": (0.0, "metrics"),
    "optimizer.warmup_steps": (0, "metrics"),
    "optimizer.beta1": (0.5, "metrics"),
    "optimizer.beta2": (0.5, "metrics"),
    "optimizer.epsilon": (0.1, "metrics"),
    "optimizer.weight_decay": (100.0, "metrics"),
    "optimizer.clip_norm": (None, "metrics"),
    "train.steps": (5, "metrics"),
    "train.stop_after": (3, "checkpoints"),
    "train.batch_size": (8, "metrics"),
    "train.accumulate": (2, "printed"),
    "train.seed": (1, "metrics"),
    "train.eval_every": (1, "metrics"),
    "train.eval_batches": (3, "metrics"),
    "train.save_every": (1, "checkpoints"),
    "train.save_minutes": (1e-9, "checkpoints"),
    "train.keep_checkpoints": (2, "checkpoints"),
    "train.log_every": (2, "metrics"),
    "train.sample_tokens": (3, "printed"),
    "train.sample_every": (2, "printed"),
    "train.note_after_rises": (1, "printed"),
    "train.wandb_project": ("a project", "refusal"),  # where wandb is installed: test_wandb
    "train.non_finite": ("skip", "printed"),  # what it does: test_run
    "train.init_from": ("base", "metrics"),
    "mesh.data": (2, "refusal"),  # in a process with one device
}

# Settings that show something only beside others, which then belong to both runs.
BESIDE = {
    "train.sample_every": {"train.sample_tokens": 3},
    "train.note_after_rises": {"train.eval_every": 1, "optimizer.learning_rate": 1.0},
}


def observe(config, out, capsys):
    capsys.readouterr()
    train(config, out=out)
    printed = re.sub(r"[\d.,]+ (s|tokens/s|MB)\b|[\d.]+%|compiled in", "", capsys.readouterr().out)
    return {
        "metrics": repeatable_metrics(out),
        "printed": printed.replace(str(out), "OUT").splitlines(),
        "checkpoints": sorted(int(path.name) for path in (out / "checkpoints").iterdir()),
    }


@pytest.fixture(scope="module")
def base_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("alive")


@pytest.fixture
def base(tiny, base_folder, capsys, request):
    """The unchanged run, once for the module (its text file is the first test's)."""
    cached = getattr(request.module, "_base", None)
    if cached is None:
        cached = (observe(tiny(SHORT), base_folder / "run", capsys), base_folder / "run")
        request.module._base = cached
    return cached


def test_every_setting_has_a_row():
    sections = {name: cls for name, cls in RunConfig.sections().items() if name not in ("model", "execution")}
    names = {f"{name}.{field}" for name, cls in sections.items() for field in cls.field_names()}
    assert names == set(CHANGES)


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_setting_shows(name, tiny, base, tmp_path, capsys):
    unchanged, base_run = base
    value, where = CHANGES[name]
    another = tmp_path / "another.txt"
    another.write_text(TEXT[:450])
    value = {"base": str(base_run), "another": str(another)}.get(value, value) if isinstance(value, str) else value
    if where == "refusal":
        with pytest.raises(RequestError, match=name.split(".")[1]):
            train(tiny(SHORT | {name: value}), out=tmp_path / "run")
        return
    beside = SHORT | BESIDE.get(name, {})
    if name in BESIDE:
        unchanged = observe(tiny(beside), tmp_path / "unchanged", capsys)
    changed = observe(tiny(beside | {name: value}), tmp_path / "run", capsys)
    assert changed[where] != unchanged[where]
