"""What is reckoned from times: rates, shares, and when compilation has paid; and what a record holds."""

import json
import math

import pytest

from jaxgpt.benchmark.report import lines, where_compilation_does_not_pay
from jaxgpt.benchmark.results import as_record, pays_back_after


def test_rates_and_shares_of_known_times(row, results):
    one = row("dense", 1e-6)  # 1 head, D 8: 320 FLOP over 10 pairs, 512 over the square, 512 bytes
    assert one.gflops(full=False) == pytest.approx(0.32)
    assert one.gflops(full=True) == pytest.approx(0.512)
    shares = one.shares(results().machine)
    assert shares == {"of_matmul_peak": pytest.approx(0.16), "of_bandwidth": pytest.approx(0.128)}


def test_compiling_is_made_up_for_by_what_each_call_gains(row):
    eager = row("eager", 0.375, mode="eager", compiling=0.5)
    assert pays_back_after(row("dense", 0.125, compiling=1.0), eager) == 4
    # Eager n calls after a first of 0.5: 1.625 at n = 3; compiled 1 + 4 x 0.125: 1.5.
    assert pays_back_after(row("dense", 0.125, compiling=1.0), eager, fresh=True) == 4
    assert pays_back_after(row("dense", 0.125, compiling=0.375), eager, fresh=True) == 1
    assert pays_back_after(row("dense", 0.375), eager) == math.inf
    assert pays_back_after(row("dense", 0.125), None) is None
    assert pays_back_after(eager, eager) is None


def test_the_report_says_where_compilation_does_not_pay(row, results):
    eager = row("eager", 0.375, mode="eager", compiling=0.5)
    said = where_compilation_does_not_pay(results(eager, row("dense", 0.125), row("jax.nn", 0.374)))[-1]
    assert "for fewer than 4 calls (4 in a fresh process" in said
    assert "then dense (1 device) is 3.00x as fast" in said
    assert said.endswith("eager is as fast as jax.nn (1 device)")
    said = where_compilation_does_not_pay(results(eager, row("dense", 0.385)))[-1]
    assert "nowhere does it pay: eager is as fast as the fastest compiled, dense (1 device) (0.97x)" in said
    assert where_compilation_does_not_pay(results(row("dense", 0.1))) == []


def test_the_table_has_every_row_and_why_one_is_missing(row, results):
    eager = row("eager", 0.3, mode="eager")
    text = "\n".join(lines(results(eager, row("dense", 0.1), row("blocked", None, left_out="wrong result: x"))))
    assert "2.0 GFLOP/s in matrix products, 4.0 GB/s" in text
    assert "not timed: blocked (1 device); wrong result: x" in text
    assert "checked against float64 first: all of it" in text
    (dense,) = (line.split() for line in text.splitlines() if line.startswith("dense"))
    assert dense[:7] == ["dense", "1", "device", "100", "50-200", "9", "3.00"]


def test_what_was_not_timed_for_one_reason_stands_on_one_line(row, results):
    places = ("1 device", "2 devices, heads divided")
    elsewhere = [
        row(name, None, devices=devices, compiling=None, left_out="not on cpu")
        for name in ("cudnn", "splash")
        for devices in places
    ]
    wrong = row("blocked", None, devices=places[1], left_out="wrong result: x")
    text = lines(results(row("blocked", 0.1), wrong, *elsewhere))
    assert [line for line in text if "not timed" in line] == [
        "not timed: blocked (2 devices, heads divided); wrong result: x",
        "not timed: cudnn, splash; not on cpu",
    ]


def test_a_record_is_json_with_the_command_the_machine_and_every_row(row, results):
    eager = row("eager", 0.3, mode="eager")
    made = results(eager, row("dense", 0.4), row("blocked", None, left_out="wrong result", wrong=True))
    record = json.loads(json.dumps(as_record(made, "jaxgpt bench attention"), allow_nan=False))
    assert record["command"] == "jaxgpt bench attention"
    assert record["machine"] == {"gflops": 2.0, "gigabytes_per_second": 4.0}
    assert record["environment"]["cores"] == 2
    assert "matmuls" in record["convention"]
    first, second, third = record["rows"]
    assert first["workload"] == {
        "B": 1, "T": 4, "H": 1, "D": 8, "K": 1, "dtype": "float32", "mask": "causal", "seed": 0,
    }  # fmt: skip
    assert second["seconds"] == {"median": 0.4, "p10": 0.2, "p90": 0.8, "calls": 9}
    assert (second["pass"], second["devices"], second["compile_seconds"]) == ("forward", "1 device", 1.0)
    assert second["temp_bytes"] == 100
    assert second["times_eager"] == pytest.approx(0.75)
    assert second["pays_back_after_calls"] is None
    assert (third["left_out"], third["wrong"]) == ("wrong result", True)
