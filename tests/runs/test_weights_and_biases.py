"""Numbers sent to Weights & Biases: one remote run for one run, and a run that its troubles never reach."""

import dataclasses
import os
import subprocess
import sys
import threading
import time
import types

import pytest

from jaxgpt.config import RequestError, TrainConfig
from jaxgpt.runs import extras, weights_and_biases
from jaxgpt.runs.directory import RunDirectory
from jaxgpt.runs.weights_and_biases import WandbLog, check_wandb


@pytest.fixture
def run(tmp_path, manifest):
    config = dataclasses.replace(manifest.config, train=TrainConfig(wandb_project="stories"))
    return RunDirectory.create(tmp_path / "run", dataclasses.replace(manifest, config=config))


class Remote:
    """In the place of wandb, for the order of the calls alone; that wandb takes them so, the last test shows."""

    def __init__(self, monkeypatch, **raising):
        self.calls, self._raising = [], raising
        module = types.ModuleType("wandb")
        module.init, module.Settings, module.setup = self._init, dict, self._setup
        self.settings = {"mode": "online", "api_key": None, "identity_token_file": None, "base_url": "https://here"}
        monkeypatch.setitem(sys.modules, "wandb", module)

    def _note(self, name, *value):
        self.calls.append((name, *value))
        if name in self._raising:
            self._raising[name]()

    def _init(self, **options):
        self._note("init", options)
        return self

    def _setup(self, settings=None):
        if "setup" in self._raising:
            self._raising["setup"]()
        return types.SimpleNamespace(settings=types.SimpleNamespace(**self.settings))

    def define_metric(self, *names, **options):
        self._note("define_metric", names, options)

    def log(self, line):
        self._note("log", line)

    def finish(self):
        self._note("finish")


def test_a_resume_goes_on_with_the_same_remote_run(run, monkeypatch):
    remote = Remote(monkeypatch)
    for step in (1, 2):
        with WandbLog(run) as log:
            log.write(step, {"loss": 3.0})
    names = [call[0] for call in remote.calls]
    assert names == ["init", "define_metric", "log", "finish"] * 2
    first, second = (call[1] for call in remote.calls if call[0] == "init")
    assert first["id"] == second["id"] == (run.path / "wandb-id.txt").read_text().strip()
    assert (first["project"], first["name"], first["resume"]) == ("stories", "run", "allow")
    assert first["config"]["train.wandb_project"] == "stories"
    assert [call[1] for call in remote.calls if call[0] == "log"] == [{"step": s, "loss": 3.0} for s in (1, 2)]


def test_nothing_is_opened_for_a_run_that_logs_nothing(run, monkeypatch):
    remote = Remote(monkeypatch)
    with WandbLog(run):
        pass
    assert remote.calls == []


@pytest.mark.parametrize("where", ["init", "log", "finish"])
def test_an_outage_is_one_warning(run, monkeypatch, capsys, where):
    def fail():
        raise OSError("the network is\nunreachable")

    Remote(monkeypatch, **{where: fail})
    with WandbLog(run) as log:
        for step in range(5):
            log.write(step, {"loss": 3.0})
    warning = "jaxgpt: warning: Weights & Biases: the network is unreachable; the run goes on without it, "
    assert capsys.readouterr().err == warning + "metrics.jsonl has its numbers\n"


def test_a_remote_that_takes_nothing_is_not_waited_for(run, monkeypatch, capsys):
    monkeypatch.setattr(weights_and_biases, "_LAST_SECONDS", 0.05)
    hung = threading.Event()
    Remote(monkeypatch, log=hung.wait)
    start = time.monotonic()
    with WandbLog(run) as log:
        for step in range(100):
            log.write(step, {"loss": 3.0})
    assert time.monotonic() - start < 5
    assert capsys.readouterr().err.startswith("jaxgpt: warning: Weights & Biases: not all was sent within 0.05 s ")
    hung.set()


@pytest.mark.parametrize("count", [10, 100], ids=["just as many as may wait", "more than may wait"])
def test_lines_that_pile_up_are_given_up(run, monkeypatch, capsys, count):
    monkeypatch.setattr(weights_and_biases, "_WAITING_LINES", 10)
    hung = threading.Event()
    Remote(monkeypatch, init=hung.wait)
    log = WandbLog(run)
    for step in range(count):
        log.write(step, {"loss": 3.0})
    closing = threading.Thread(target=log.close, daemon=True)
    closing.start()
    closing.join(5)
    assert not closing.is_alive()
    assert capsys.readouterr().err.count("10 lines wait to be taken") == 1
    hung.set()


def test_a_project_without_wandb_is_refused(monkeypatch):
    monkeypatch.setattr(extras, "installed_versions", lambda packages: {})
    with pytest.raises(RequestError, match=r"train.wandb_project needs wandb, .* pip install 'jaxgpt\[wandb\]'"):
        check_wandb("stories")
    check_wandb(None)


@pytest.fixture
def without_key(monkeypatch, tmp_path):
    """An installed wandb and a home without a key; what is given away is written over."""
    monkeypatch.setattr(extras, "installed_versions", lambda packages: dict.fromkeys(packages, "0.31.0"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)
    return Remote(monkeypatch)


def test_a_project_without_a_key_is_refused(without_key):
    with pytest.raises(RequestError, match=r"wandb has no API key; run `wandb login` or .* WANDB_MODE=offline"):
        check_wandb("stories")


@pytest.mark.parametrize(
    "setting",
    [{"mode": "offline"}, {"mode": "disabled"}, {"api_key": "0123"}, {"identity_token_file": "token"}],
    ids=str,
)
def test_a_key_or_a_mode_that_needs_none_is_enough(without_key, setting):
    without_key.settings |= setting
    check_wandb("stories")


@pytest.mark.parametrize("host", ["here", "api.wandb.ai"])
@pytest.mark.parametrize("name", [".netrc", "_netrc", "elsewhere"])
def test_a_key_that_a_login_has_left_is_found(without_key, monkeypatch, tmp_path, host, name):
    (tmp_path / name).write_text(f"machine {host}\n  login user\n  password 0123\n")
    (tmp_path / name).chmod(0o600)
    if name == "elsewhere":
        monkeypatch.setenv("NETRC", "~/elsewhere")
    check_wandb("stories")


def test_a_key_for_another_host_is_none(without_key, tmp_path):
    (tmp_path / ".netrc").write_text("machine example.org\n  login user\n  password 0123\n")
    with pytest.raises(RequestError, match="wandb has no API key"):
        check_wandb("stories")


def test_what_wandb_refuses_is_refused_in_its_words(without_key, monkeypatch):
    def fail():
        raise ValueError("mode\n  is not 'onlin'")

    Remote(monkeypatch, setup=fail)
    with pytest.raises(RequestError, match="wandb does not start: mode is not 'onlin'; mend that"):
        check_wandb("stories")


WITHOUT_KEY = """
import sys
from pathlib import Path
from jaxgpt.config import RequestError
from jaxgpt.runs.directory import RunDirectory
from jaxgpt.runs.weights_and_biases import WandbLog, check_wandb

try:
    check_wandb("stories")
except RequestError as error:
    print("refused:", error)
with WandbLog(RunDirectory.open(Path(sys.argv[1]))) as log:
    log.write(1, {"loss": 3.0})
"""


@pytest.mark.ci
def test_wandb_itself_asks_for_nothing_on_a_terminal(run, tmp_path):
    pytest.importorskip("wandb.sdk", reason="wandb is not installed (the wandb extra)")
    terminal, end = os.openpty()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("WANDB_", "NETRC"))}
    child = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_KEY, run.path],
        env=environment | {"HOME": str(tmp_path), "TERM": "xterm"},
        stdin=end,
        stdout=end,
        stderr=end,
    )
    os.close(end)
    try:
        assert child.wait(60) == 0
    finally:
        child.kill()
    refusal, warning = os.read(terminal, 10_000).decode().splitlines()
    assert refusal.startswith("refused: train.wandb_project: wandb has no API key; run `wandb login`")
    assert warning.startswith("jaxgpt: warning: Weights & Biases: ")
    assert warning.endswith("; the run goes on without it, metrics.jsonl has its numbers")


def test_wandb_itself_takes_a_run_offline(run, monkeypatch, capsys):
    pytest.importorskip("wandb.sdk", reason="wandb is not installed (the wandb extra)")
    monkeypatch.setenv("WANDB_MODE", "offline")
    for step in (1, 2):
        with WandbLog(run) as log:
            log.write(step, {"loss": 3.0})
    identity = (run.path / "wandb-id.txt").read_text().strip()
    files = sorted((run.path / "wandb").glob(f"offline-run-*-{identity}/run-{identity}.wandb"))
    assert len(files) == 2
    assert all(file.stat().st_size for file in files)
    assert capsys.readouterr().err == ""
