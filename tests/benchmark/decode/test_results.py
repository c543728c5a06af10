"""What is reckoned from times: rates, shares of the bound, and where a cache or a layout does not pay."""

import json
import math

import pytest

from jaxgpt.benchmark.decode.report import lines
from jaxgpt.benchmark.decode.results import as_record

TIMES = {"cached": 0.25, "cached, as stored": 0.5, "uncached": 2.0, "transformers": 1.0}


def test_rates_and_shares_of_known_times(results, workload):
    (group,) = results(0.125, TIMES).groups
    cached = group.row("cached")
    assert group.tokens_per_second(cached) == 8.0  # two rows
    assert group.share(cached) == 0.5
    assert (group.times(cached, "transformers"), group.times(cached, "uncached")) == (4.0, 8.0)
    assert group.times(cached, "nobody") is None
    assert group.gigabytes_per_second(0.125) == pytest.approx(8 * workload.step_bytes / 1e9)


def test_laying_out_the_parameters_pays_by_what_each_step_gains(results):
    for times, after in ((TIMES, 4), (TIMES | {"cached": 0.75}, math.inf), ({"cached": 0.25}, None)):
        made = results(0.1, times)
        assert made.pays_back_after(made.groups[0]) == after


def test_the_report_has_every_row_and_why_one_is_missing(results):
    text = lines(results(0.125, TIMES | {"transformers": "wrong result: x"}))
    (cached,) = (line.split() for line in text if line.startswith("cached  "))
    assert cached == ["cached", "250", "125-500", "9", "8", "50%", "1e+03", "2.00"]
    (reading,) = (line.split() for line in text if line.startswith("reading alone  "))
    assert reading == ["reading", "alone", "125", "62.5-250", "9", "16"]
    assert "not timed: transformers; wrong result: x" in text


def test_the_report_says_what_pays_and_what_does_not(results):
    text = lines(results(0.1, TIMES))
    assert text[-2:] == [
        "the cache pays: 8.00x as fast as without one",
        "laying out the parameters takes 1e+03 ms, pays after 4 steps: 2.00x as fast",
    ]
    text = lines(results(0.1, {"cached": 0.5, "cached, as stored": 0.5, "uncached": 0.25}))
    assert text[-2:] == [
        "the cache does not pay here: 0.50x as fast as without one",
        "laying out the parameters does not pay here: 1.00x as fast",
    ]
    assert not [line for line in lines(results(0.1, {"uncached": 1.0})) if "pay" in line]


def test_a_record_is_json_with_the_command_and_every_row(results):
    made = results(0.125, TIMES | {"uncached": "wrong result: x"})
    record = json.loads(json.dumps(as_record(made, "jaxgpt bench decode"), allow_nan=False))
    assert (record["command"], record["peer_threads"]) == ("jaxgpt bench decode", 2)
    (group,) = record["groups"]
    assert group["workload"]["new_tokens"] == 5
    cached, _, uncached, _ = group["rows"]
    assert cached["step"] == {"median": 0.25, "p10": 0.125, "p90": 0.5, "calls": 9}
    assert (cached["of_bound"], cached["times_transformers"], cached["times_uncached"]) == (0.5, 4.0, None)
    assert (uncached["left_out"], uncached["wrong"], uncached["step"]) == ("wrong result: x", True, None)
    assert made.wrong == ["uncached at B2, 3 + 5 tokens: wrong result: x"]
