"""`EventFile`: scalars and texts in the file format that TensorBoard reads.

It writes where it is called. tensorboardX's own writer leaves that to a thread, which dies when the disk is full, and
the run then waits for it for ever.
"""

from __future__ import annotations

import re
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.record_writer import masked_crc32c
from tensorboardX.summary import scalar, text

_VERSION = "brain.Event:2"
_STAMP = re.compile(r"events\.out\.tfevents\.(\d{10})\.(\d{9})\.")


class EventFile:
    """A new file of events in a folder, which is made where it is missing.

    Args:
        folder: Where the run's event files lie.
        purge_step: Steps from here on in earlier files are to be hidden; None hides nothing.

    Raises:
        OSError: here and in every method, where the disk refuses.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = EventFile(Path(folder), purge_step=None)
        ...     file.write(1, {"loss": 4.25})
        ...     file.close()
        ...     len(list(Path(folder).glob("events.out.tfevents.*")))
        1
    """

    def __init__(self, folder: Path, *, purge_step: int | None) -> None:
        folder.mkdir(exist_ok=True)
        seconds, nanoseconds = divmod(_later_than_all(folder), 10**9)  # TensorBoard orders the files by name
        name = f"events.out.tfevents.{seconds:010d}.{nanoseconds:09d}.{socket.gethostname()}"
        self._file = (folder / name).open("ab")
        self._add(Event(file_version=_VERSION))
        if purge_step is not None:
            self._add(Event(step=purge_step, session_log=SessionLog(status=SessionLog.START)))

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """Write `numbers` as the scalars of `step`; they are with the operating system on return."""
        event = Event(step=step)
        for name, value in numbers.items():
            event.summary.value.extend(scalar(name, value).value)
        self._add(event)

    def write_text(self, step: int, name: str, words: str) -> None:
        """Write `words` as a text of `step`, its lines as they are."""
        event = Event(step=step)
        event.summary.value.extend(text(name, _as_markdown(words)).value)
        self._add(event)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _add(self, event: Event) -> None:
        event.wall_time = time.time()
        data = event.SerializeToString()
        length = struct.pack("<Q", len(data))
        parts = (length, struct.pack("<I", masked_crc32c(length)), data, struct.pack("<I", masked_crc32c(data)))
        self._file.write(b"".join(parts))
        self._file.flush()


def _as_markdown(words: str) -> str:
    r"""Return `words` as a block that TensorBoard, which reads Markdown, shows line by line.

    >>> _as_markdown("# a\nb")
    '    # a\n    b'
    """
    return "\n".join(f"    {line}" for line in words.split("\n"))


def _later_than_all(folder: Path) -> int:
    """Return the time in nanoseconds, or one after the last file's where the clock was set back since."""
    stamps = (_STAMP.match(path.name) for path in folder.iterdir())
    known = [int(stamp[1]) * 10**9 + int(stamp[2]) for stamp in stamps if stamp]
    return max([time.time_ns(), *(nanoseconds + 1 for nanoseconds in known)])
