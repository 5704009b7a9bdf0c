"""How long reports of a run of 20,000 trials take, and how much memory.

The run is that of docs/results/demo, repeated under other builds, at other settings, or in other
repeats. Goals for each report: a minute, and 1 GiB. `--trials 100000` makes a larger one (goal:
five minutes), `--trials 1200` shows in a minute that it works.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

import harness
from vectrial.results.bundle import run_folder

DEMO = Path(__file__).parent.parent / "docs" / "results" / "demo" / "run.vectrial.tar.gz"
#: Ids of what is copied begin here.
_STEP = 1_000_000
#: What is another in copy n, by shape.
SHAPES = {
    "builds": """regexp_replace(index_params, '"m": ?16', '"m": ' || (16 + n)) as index_params""",
    "settings": """regexp_replace(params, '"ef_search": ?(\\d+)', '"ef_search": \\1'"""
    " || lpad(n::varchar, 3, '0')) as params",
    "repeats": "(repeat + 3 * n)::integer as repeat",
}
REPORTS = ("text", "html", "jsonl")


def multiply(folder: Path, trials: int, shape: str) -> int:
    """Repeat the trials of a run, and what belongs to them, to this many or more; returns their
    number."""
    with duckdb.connect(str(folder / "run.duckdb")) as db:
        (count,) = db.execute("select count(*) from trial").fetchone() or (0,)
        copies = -(-trials // count)
        db.execute("create temp table copy as select unnest(range(1, ?)) as n", [copies])
        moved, phase = (f"{one} + {_STEP} * n as {one}" for one in ("trial_id", "phase_id"))
        changed = {
            "trial": f"{moved}, key || '-' || n as key, {SHAPES[shape]}",
            "phase": f"{moved}, {phase}",
            "gate": moved,
            **dict.fromkeys(("metric", "histogram", "slice"), phase),
        }
        for table, columns in changed.items():
            db.execute(
                f"insert into {table} by name"
                f" select * exclude (n) replace ({columns}) from {table}, copy"
            )
        return copies * count


def report(folder: Path, form: str, out: Path) -> tuple[float, float]:
    """Seconds and GiB that a report takes."""
    command = [sys.executable, "-m", "vectrial.cli.main", "report", str(folder), "--format", form]
    began = time.perf_counter()
    process = subprocess.Popen([*command, "--out", str(out)], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"the {form} report ended with {status}")
    return time.perf_counter() - began, used.ru_maxrss / 2**20


def main() -> int:
    """Make the runs, and their reports."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--jsonl", type=Path, help="append one JSON object per figure to this file")
    given = parser.parse_args()
    bench = harness.Bench(given.jsonl)
    goal_s = 60.0 if given.trials <= 20_000 else 300.0
    with TemporaryDirectory() as place, run_folder(DEMO) as source:
        for shape in given.shapes:
            folder = shutil.copytree(source, Path(place) / shape)
            # In a process of its own: a child is said to have had at least its parent's memory.
            with ProcessPoolExecutor(1) as other:
                count = other.submit(multiply, folder, given.trials, shape).result()
            for form in REPORTS:
                took_s, gib = report(folder, form, Path(place) / "out")
                name = f"report of {count:,} trials ({shape}), {form}"
                bench.add(harness.figure(name, "s", [took_s], goal=goal_s))
                bench.add(harness.figure(f"{name}: memory", "GiB", [gib], goal=1.0))
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
