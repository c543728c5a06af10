"""`jaxgpt train` alone: offline, in an empty folder, it learns within a minute and says what it did."""

import math
import re
import time

import pytest
from program import run_program

pytestmark = pytest.mark.ci  # its time is measured: nothing may run beside it

SECONDS = 60  # on two otherwise idle cores


def run_in(folder):
    """The folder, what `jaxgpt train` printed there, and the seconds it took."""
    start = time.monotonic()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XLA_FLAGS", "")  # compiled as users do
        patched.setenv("JAX_ENABLE_COMPILATION_CACHE", "false")  # and for the first time, each time
        finished = run_program("train", cwd=folder)
    assert finished.returncode == 0, finished.stderr
    return folder, finished.stdout, time.monotonic() - start


@pytest.fixture(scope="module")
def first_minute(tmp_path_factory):
    return run_in(tmp_path_factory.mktemp("empty"))


def number(pattern, text):
    return float(re.search(pattern, text).group(1).replace(",", ""))


def test_it_takes_at_most_a_minute(first_minute, tmp_path):
    """On a shared machine others may have been busy meanwhile; then it is given a second chance."""
    assert first_minute[2] <= SECONDS or run_in(tmp_path)[2] <= SECONDS


def test_the_first_loss_is_that_of_a_fresh_model(first_minute):
    _, printed, _ = first_minute
    vocabulary = number(r"ln V = ln (\d+)", printed)
    expected = math.log(vocabulary) + 128 * 0.02**2 / 2
    assert number(r"0\.02\^2 / 2 = ([\d.]+)", printed) == pytest.approx(expected, abs=1e-4)
    assert abs(number(r"first loss ([\d.]+)", printed) - expected) < 0.1


def test_the_validation_loss_ends_a_nat_below_guessing(first_minute):
    _, printed, _ = first_minute
    last = [float(loss) for loss in re.findall(r"validation loss ([\d.]+)", printed)][-1]
    assert last < number(r"ln V = ln \d+ = ([\d.]+)", printed) - 1


def test_the_sample_looks_more_like_the_text_than_random_characters_do(first_minute):
    _, printed, _ = first_minute
    sample = re.search(r"sample \(temperature.*?\):\n(.*?)\n[\d,]+ tokens/s over", printed, re.S).group(1)
    frequent = sum(character in " etaoinsrhl\n" for character in sample)
    assert len(sample) > 150
    assert frequent > len(sample) / 2  # of 103 characters these 12 would be 12 %


@pytest.mark.parametrize(
    "words",
    [
        r"train\.steps = \d+  \(preset quickstart\)",
        r"total +[\d,]+ +100\.0 %",
        r"step +\d+  loss [\d.]+  [\d,]+ tokens/s",
        r"validation loss [\d.]+ ± [\d.]+ \(whole split, [\d,]+ tokens\)",
        r"[\d,]+ tokens/s over \d+ steps in .* compiling [\d.]+ s, .*peak memory [\d,]+ MB",
        r"the run lies in runs/\S+",
        r"jaxgpt train --out runs/\S+ --train\.steps \d+",
    ],
)
def test_it_prints_what_a_newcomer_needs(first_minute, words):
    assert re.search(words, first_minute[1]), first_minute[1]


def test_waiting_for_data_takes_under_two_percent(first_minute):
    assert number(r"waiting for data ([\d.]+)%", first_minute[1]) < 2
