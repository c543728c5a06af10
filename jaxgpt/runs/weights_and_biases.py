"""`WandbLog`: a run's numbers at Weights & Biases too, sent by a thread that the run never waits for."""

from __future__ import annotations

import contextlib
import netrc
import os
import queue
import secrets
import threading
import urllib.parse
from collections.abc import Mapping
from typing import Any, Self

from jaxgpt.config import RequestError, flatten, warn

from .directory import RunDirectory
from .extras import require_extra
from .files import write_atomically

_WAITING_LINES = 10_000
_LAST_SECONDS = 20.0  # given to what is still to be sent when a run ends
_OPENING_SECONDS = 15.0  # fewer: a process that ends while wandb still tries to open is held up by it
_MODES_WITHOUT_KEY = ("offline", "dryrun", "disabled")
_PUBLIC_HOST = "api.wandb.ai"  # a key for it serves the hosts that stand for it too


def check_wandb(project: str | None) -> None:
    """Refuse, before anything is written, a project that nothing here could send to; None is no project.

    Raises:
        RequestError: wandb is not installed, refuses its environment, or has no API key where it needs one.
    """
    if project is None:
        return
    require_extra("train.wandb_project", "wandb", "wandb")
    try:
        settings = _silent_wandb().setup().settings
    except Exception as error:  # whatever a library may raise that is given a wrong variable
        raise RequestError(f"train.wandb_project: wandb does not start: {_one_line(error)}; mend that") from None
    if settings.mode not in _MODES_WITHOUT_KEY and not _has_key(settings):
        raise RequestError(
            "train.wandb_project: wandb has no API key; run `wandb login` or set WANDB_API_KEY, or set "
            "WANDB_MODE=offline to keep what it would send in the run's folder"
        )


def _silent_wandb() -> Any:
    """Return the module, told to be silent: else it asks on a terminal, in whatever thread, for what it lacks."""
    import wandb

    wandb.setup(wandb.Settings(silent=True))
    return wandb


def _has_key(settings: Any) -> bool:
    hosts = [urllib.parse.urlsplit(settings.base_url).netloc, _PUBLIC_HOST]
    return bool(settings.api_key or settings.identity_token_file or any(map(_in_netrc, hosts)))


def _in_netrc(host: str) -> bool:
    """Return whether `wandb login` has left a key for the host where it leaves them."""
    for path in filter(None, [os.environ.get("NETRC"), "~/.netrc", "~/_netrc"]):
        with contextlib.suppress(OSError, netrc.NetrcParseError):
            if netrc.netrc(os.path.expanduser(path)).authenticators(host):
                return True
    return False


class WandbLog:
    """Sends lines of metrics, and never stops or slows the run: whatever goes wrong becomes one warning.

    Where to, or whether only into the folder `wandb/` of the run, wandb's own environment says (WANDB_MODE,
    WANDB_API_KEY, ...). The run keeps its id in `wandb-id.txt`, so a resume goes on with the same one; steps that it
    does again appear there twice, since what was sent cannot be taken back. Nothing is sent before the first line.

    Args:
        run: The run directory, locked by this process; its config says the project.
    """

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._lines: queue.Queue[dict[str, float] | None] = queue.Queue(_WAITING_LINES)
        self._sender = threading.Thread(target=self._send, name="wandb", daemon=True)
        self._given_up = threading.Event()

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """Hand over the numbers of a step."""
        if self._sender.ident is None:
            self._sender.start()
        self._put({"step": step, **numbers})

    def close(self) -> None:
        """Wait some seconds for what is still to be sent."""
        if self._sender.ident is None:
            return
        self._put(None)
        if self._given_up.is_set():
            return
        self._sender.join(_LAST_SECONDS)
        if self._sender.is_alive():
            self._give_up(f"not all was sent within {_LAST_SECONDS:g} s of the end")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put(self, line: dict[str, float] | None) -> None:
        """Hand over a line, or the end, without waiting for room."""
        if not self._given_up.is_set():
            try:
                self._lines.put_nowait(line)
            except queue.Full:
                self._give_up(f"{_WAITING_LINES} lines wait to be taken")

    def _send(self) -> None:
        try:
            remote = self._opened()
            remote.define_metric("*", step_metric="step")
            while (line := self._lines.get()) is not None:
                remote.log(line)
            remote.finish()
        except Exception as error:  # whatever it is, the run is not to end for it
            self._give_up(_one_line(error))

    def _opened(self) -> Any:
        wandb = _silent_wandb()
        return wandb.init(
            project=self._run.manifest.config.train.wandb_project,
            id=self._kept_id(),
            resume="allow",
            name=self._run.path.resolve().name,
            dir=str(self._run.path),
            config=flatten(self._run.manifest.config),
            settings=wandb.Settings(console="off", silent=True, init_timeout=_OPENING_SECONDS),
        )

    def _kept_id(self) -> str:
        path = self._run.path / "wandb-id.txt"
        if not path.exists():
            write_atomically(path, secrets.token_hex(4) + "\n")
        return path.read_text(encoding="utf-8").strip()

    def _give_up(self, reason: str) -> None:
        if not self._given_up.is_set():
            self._given_up.set()
            warn(f"Weights & Biases: {reason}; the run goes on without it, metrics.jsonl has its numbers")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
