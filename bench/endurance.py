"""Kill a run at many moments, continue it each time, and hold its end against a run that was left alone.

python bench/endurance.py --kills 50 --examples 20000 --record bench/results/endurance.json

Each kill is a run of its own: started in a child process, ended by SIGKILL at a random moment of its life (some
inside a save, some inside an evaluation), continued, and compared bit for bit in parameters, moments, logged losses
and files. Then the fuzz tests of tests/fuzz run with as many examples together. pytest has to be installed (the
`test` extra).
"""

import argparse
import collections
import dataclasses
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from whole_runs import Kill, Traces, Workshop, kill_and_continue, moments  # noqa: E402

from jaxgpt.benchmark.machine import environment  # noqa: E402


def killed(workshop: Workshop, count: int, seed: int) -> tuple[list[Kill], list[str], float]:
    """Kill and continue `count` runs; return those that ended equal, how others failed, and a whole run's seconds."""
    first, _ = Traces.of_whole(workshop, "first")  # its programs are kept, so that a later child begins as all do
    whole, life = Traces.of_whole(workshop, "whole")
    whole.check_same(first)
    print(f"a whole run takes {life:.1f} s", flush=True)
    kills, failures = [], []
    for i, (moment, after) in enumerate(moments(workshop, count, life, random.Random(seed))):
        try:
            kills.append(kill_and_continue(workshop, f"kill-{i}", moment, after, whole))
        except AssertionError as failure:
            failures.append(f"kill {i + 1}, at {moment}: {failure}")
            print(failures[-1], flush=True)
        else:
            print(f"kill {i + 1}: while {kills[-1].phase}, continued from step {kills[-1].step}, equal", flush=True)
    return kills, failures, life


def fuzzed(examples: int) -> dict:
    """Run the fuzz tests with `examples` in all; return how many, the seconds they took, and whether all passed."""
    start = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-n", "0", "-m", "ci", str(ROOT / "tests" / "fuzz")]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"JAXGPT_FUZZ_EXAMPLES": str(examples)}, check=False)
    return {"examples": examples, "passed": done.returncode == 0, "seconds": round(time.monotonic() - start, 1)}


def write(record: dict, path: Path) -> None:
    """Write the record as far as it goes; hours are not lost to what comes after them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n")


def main() -> None:
    """Kill, fuzz, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--examples", type=int, default=20_000, help="of the fuzz tests together; 0 leaves them out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kills, failures, life = killed(Workshop(Path(folder)), options.kills, options.seed)
    record = {
        "command": f"python bench/endurance.py --kills {options.kills} --examples {options.examples}",
        "kills": options.kills,
        "bitwise_equal": len(kills),
        "failures": failures,
        "seconds_of_a_whole_run": round(life, 1),
        "killed_while": collections.Counter(kill.phase for kill in kills),
        "fuzz": None,
        "environment": environment(),
        "each_kill": [dataclasses.asdict(kill) for kill in kills],
    }
    write(record, options.record)
    if options.examples:
        record["fuzz"] = fuzzed(options.examples)
        write(record, options.record)
    print(f"{options.kills} kills, {len(kills)} equal ends, written to {options.record}")
    sys.exit(1 if failures or (record["fuzz"] and not record["fuzz"]["passed"]) else 0)


if __name__ == "__main__":
    main()
