"""Metrics: whole lines, valid JSON whatever the numbers, and a resume that leaves no double steps."""

from __future__ import annotations

import json
import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboardX.proto.event_pb2 import Event, SessionLog

from jaxgpt.config import RequestError, WorkError
from jaxgpt.runs import metrics
from jaxgpt.runs.directory import RunDirectory
from jaxgpt.runs.metrics import MetricsLog, read_metrics, read_samples


@pytest.fixture
def run(tmp_path, manifest):
    return RunDirectory.create(tmp_path / "run", manifest)


def events(run):
    """Return TensorBoard's events in the order of their files, read from the record format itself."""
    found = []
    for path in sorted(run.tensorboard_path.iterdir(), key=lambda path: path.stat().st_mtime_ns):
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            found.append(Event.FromString(data[12 : 12 + length]))
            data = data[16 + length :]
    return found


def scalars(run):
    return [(e.step, v.tag, v.simple_value) for e in events(run) for v in e.summary.value]


def test_lines_come_back_in_order(run):
    with MetricsLog(run) as log:
        log.write(1, {"loss": 4.25})
        log.write(2, {"loss": np.float32(3.5), "tokens": 128})
    assert read_metrics(run.metrics_path) == [{"step": 1, "loss": 4.25}, {"step": 2, "loss": 3.5, "tokens": 128}]


def test_a_line_can_be_read_as_soon_as_it_is_written(run):
    with MetricsLog(run) as log:
        log.write(1, {"loss": 4.25})
        assert read_metrics(run.metrics_path) == [{"step": 1, "loss": 4.25}]


@settings(deadline=None, max_examples=30)
@given(st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1).filter("step".__ne__), st.floats()))
def test_any_number_survives_and_every_line_is_strict_json(tmp_path_factory, manifest, numbers):
    run = RunDirectory.create(tmp_path_factory.mktemp("run"), manifest)
    with MetricsLog(run) as log:
        log.write(3, numbers)
    (line,) = run.metrics_path.read_text(encoding="utf-8").splitlines()
    json.loads(line, parse_constant=pytest.fail)
    (values,) = read_metrics(run.metrics_path)
    assert values.pop("step") == 3
    assert values.keys() == numbers.keys()
    assert all(values[name] == x or (math.isnan(values[name]) and math.isnan(x)) for name, x in numbers.items())


def test_tensorboard_has_the_finite_numbers(run, capfd):
    with MetricsLog(run) as log:
        log.write(1, {"loss": 4.25, "rate": 0.5})
        log.write(2, {"loss": math.inf})
    assert scalars(run) == [(1, "loss", 4.25), (1, "rate", 0.5)]
    assert capfd.readouterr() == ("", "")


def test_a_resume_forgets_the_steps_after_its_checkpoint(run):
    with MetricsLog(run) as log:
        for step in (10, 20, 30):
            log.write(step, {"loss": math.nan if step == 10 else float(step)})
    with MetricsLog(run) as log:
        log.cut_back(20)
        log.write(30, {"loss": 0.5})
    steps = [(line["step"], line["loss"]) for line in read_metrics(run.metrics_path)]
    assert str(steps) == "[(10, nan), (20, 20.0), (30, 0.5)]"
    marks = [event.step for event in events(run) if event.session_log.status == SessionLog.START]
    assert marks == [21]


def test_tensorboards_records_carry_their_checksums(run):
    with MetricsLog(run) as log:
        log.write(1, {"loss": 4.25})
    (path,) = run.tensorboard_path.iterdir()
    data, records = path.read_bytes(), 0
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        for part in (data[:8], data[12 : 12 + length]):
            (checksum,) = struct.unpack_from("<I", data, data.index(part) + len(part))
            assert checksum == masked(crc32c(part))
        data, records = data[16 + length :], records + 1
    assert records == 2


def crc32c(data):
    """Castagnoli's polynomial, bit by bit."""
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


def masked(checksum):
    """As the record format stores it: turned by 15 bits, plus a constant."""
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) % 2**32


def test_a_torn_last_line_is_dropped_on_resume(run):
    with MetricsLog(run) as log:
        log.write(10, {"loss": 1.0})
    with run.metrics_path.open("a") as file:
        file.write('{"step": 20, "lo')
    assert len(read_metrics(run.metrics_path)) == 1
    with MetricsLog(run) as log:
        log.cut_back(20)
        log.write(20, {"loss": 2.0})
    assert [line["step"] for line in read_metrics(run.metrics_path)] == [10, 20]


def test_cutting_back_a_run_without_metrics_is_fine(run):
    with MetricsLog(run) as log:
        log.cut_back(0)
    assert not run.metrics_path.exists()


DAMAGED = ["\0\0\0", "[1]", '{"loss": 1}', "3", "[" * 100_000]
NO_STEPS = ["null", "1e400", "1.5", "true", '"1"', "-1", "1" + "0" * 400]
NO_NUMBERS = ["null", '"abc"', "true", "[1]", "1e400", "NaN", "1" + "0" * 400]


@pytest.mark.parametrize(
    "line",
    [*DAMAGED, *(f'{{"step": {value}}}' for value in NO_STEPS), *(f'{{"step": 1, "x": {v}}}' for v in NO_NUMBERS)],
    ids=lambda line: line[:25],
)
def test_a_damaged_line_is_named(run, line):
    run.metrics_path.write_text(f'{{"step": 1}}\n{line}\n{{"step": 2}}\n')
    with MetricsLog(run) as log:
        for read in (lambda: read_metrics(run.metrics_path), lambda: log.cut_back(1)):
            with pytest.raises(RequestError, match="line 2: expected a JSON object with 'step' and numbers, got b"):
                read()


def test_a_sample_that_is_no_text_is_named(run):
    run.samples_path.write_text('{"step": 1, "text": "to be"}\n{"step": 2, "text": 3}\n')
    with pytest.raises(RequestError, match="line 2: expected a JSON object with 'step' and 'text', got b"):
        read_samples(run.samples_path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(RequestError, match=r"cannot read .*: No such file"):
        read_metrics(tmp_path / "metrics.jsonl")


@pytest.mark.parametrize("full", ["metrics", "tensorboard"])
def test_a_full_disk_is_one_message_also_when_the_log_closes(run, full, monkeypatch):
    monkeypatch.setattr("jaxgpt.runs.tensorboard._later_than_all", lambda _: 5 * 10**9)
    monkeypatch.setattr("socket.gethostname", lambda: "here")
    run.tensorboard_path.mkdir()
    file = run.metrics_path
    if full == "tensorboard":
        file = run.tensorboard_path / "events.out.tfevents.0000000005.000000000.here"
    file.symlink_to("/dev/full")
    with pytest.raises(WorkError, match=r"cannot write .*: No space left on device; free space"):
        log_fifty(run)


def test_a_run_whose_place_another_folder_has_taken_is_not_written_to(run):
    with MetricsLog(run) as log:
        log.write(1, {"loss": 1.0})
        run.path.rename(run.path.with_name("elsewhere"))
        run.path.mkdir()
        for write in (lambda: log.write(2, {"loss": 1.0}), lambda: log.write_sample(2, "to be")):
            with pytest.raises(WorkError, match="is gone, removed or moved while the run was writing to it"):
                write()
    assert list(run.path.iterdir()) == []


def log_fifty(run):
    """More steps than a queue would take, and then the close."""
    with MetricsLog(run) as log:
        for step in range(50):
            log.write(step, {"loss": 1.0})


def test_what_was_logged_and_sampled_is_put_on_disk(run, monkeypatch):
    synced = []
    monkeypatch.setattr(metrics, "sync", synced.append)
    with MetricsLog(run) as log:
        log.sync()
        log.write(1, {"loss": 4.25})
        log.write_sample(1, "text")
        log.sync()
    assert synced == [run.metrics_path, run.path, run.samples_path, run.path]
