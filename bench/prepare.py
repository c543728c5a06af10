"""What preparing a large text with GPT-2's tokenizer takes, and whether kills change its result.

    python bench/prepare.py --text input.txt --merges vocab.bpe --record bench/results/prepare-gpt2.json

Makes a text of shuffled lines of another one, mixed with drawn words and numbers so that no cache of pieces is
flattered, prepares it in a process of its own, then again while that process is killed several times, and compares
the two files. Memory is the most that the process held, as the system counts it when it ends.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import string
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = [sys.executable, "-c", "import sys; from jaxgpt.cli import main; sys.exit(main())"]


def make_text(source: Path, out: Path, megabytes: int) -> None:
    """Write a text of that size: every line of the source again and again, in drawn orders, with drawn words."""
    draw = random.Random(0)
    lines = source.read_text().splitlines(keepends=True)
    words = sorted({word for line in lines for word in line.split()})
    left = megabytes * 10**6
    with out.open("w") as file:
        while left > 0:
            draw.shuffle(lines)
            made = "".join(line if draw.random() < 0.7 else drawn_line(draw, words) for line in lines)
            left -= file.write(made[:left])


def drawn_line(draw: random.Random, words: list[str]) -> str:
    """Return a line of words from the source, words of drawn letters, and numbers."""
    kinds = (
        lambda: draw.choice(words),
        lambda: "".join(draw.choices(string.ascii_letters, k=draw.randrange(2, 10))),
        lambda: str(draw.randrange(10**6)),
    )
    return " ".join(draw.choice(kinds)() for _ in range(draw.randrange(1, 12))) + "\n"


def start(text: Path, merges: Path, out: Path) -> subprocess.Popen:
    """Begin to prepare."""
    command = [*PROGRAM, "data", "prepare", str(text), "--tokenizer", str(merges), "--out", str(out), "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def finish(process: subprocess.Popen) -> dict:
    """Wait for the end; return what it printed, and the memory and time that the system counted."""
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"jaxgpt data prepare ended with status {status}")
    unit = 1 if sys.platform == "darwin" else 1024
    return json.loads(printed) | {"peak": usage.ru_maxrss * unit, "cpu": usage.ru_utime + usage.ru_stime}


def kill_often(text: Path, merges: Path, out: Path, kills: int, seconds: float) -> list[float]:
    """Kill it at drawn moments, that many times; return after how many seconds each."""
    draw = random.Random(1)
    moments = []
    while len(moments) < kills:
        process = start(text, merges, out)
        moments.append(round(draw.uniform(0.2, seconds), 2))
        time.sleep(moments[-1])
        process.send_signal(signal.SIGKILL)
        if process.wait() != -signal.SIGKILL:
            raise SystemExit("it was done before it was killed; give fewer kills, or more text")
    return moments


def sha256(path: Path) -> str:
    """Return a file's hash."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> None:
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="the text whose lines are taken")
    parser.add_argument("--merges", type=Path, required=True, help="GPT-2's vocab.bpe")
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path("prepare-bench"), help="taken away at the end")
    parser.add_argument("--record", type=Path, required=True)
    options = parser.parse_args()
    options.folder.mkdir(parents=True)
    try:
        record = measure(options)
    finally:
        shutil.rmtree(options.folder)
    options.record.parent.mkdir(parents=True, exist_ok=True)
    options.record.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps({name: value for name, value in record.items() if name != "environment"}, indent=2))


def measure(options: argparse.Namespace) -> dict:
    """Return the record."""
    text, whole, killed = (options.folder / name for name in ("text.txt", "whole.tokens", "killed.tokens"))
    make_text(options.text, text, options.megabytes)
    begun = time.perf_counter()
    facts = finish(start(text, options.merges, whole))
    seconds = time.perf_counter() - begun
    moments = kill_often(text, options.merges, killed, options.kills, seconds / options.kills)
    again = finish(start(text, options.merges, killed))
    if sha256(whole) != sha256(killed):
        raise SystemExit("the file that was killed and gone on with differs")
    megabytes = text.stat().st_size / 1e6
    from jaxgpt.benchmark.machine import environment  # here: a process starts with the peak of the one that starts it

    return {
        "command": f"python bench/prepare.py --text {options.text.name} --merges {options.merges.name} "
        f"--megabytes {options.megabytes} --kills {options.kills}",
        "text": {"megabytes": megabytes, "sha256": sha256(text), "bytes_per_token": facts["bytes_per_token"]},
        "uninterrupted": {
            "seconds of the whole command": round(seconds, 2),
            "megabytes per second": round(megabytes / seconds, 2),
            "peak memory in MB": round(facts["peak"] / 1e6, 1),
            "seconds of processor": round(facts["cpu"], 2),
        },
        "killed": {
            "seconds before each kill": moments,
            "tokens that the last call found": again["tokens_from_earlier_calls"],
            "tokens": again["tokens"],
            "peak memory in MB": round(again["peak"] / 1e6, 1),
            "sha256 of both files": sha256(killed),
        },
        "environment": environment(),
    }


if __name__ == "__main__":
    main()
