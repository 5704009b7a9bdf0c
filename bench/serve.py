"""How soon the page of `vectrial serve` is there, over 200 runs of 1,000 trials each.

The runs are generated: one is written by the code that writes runs, multiplied to a thousand
trials or a few more, and copied under other names and dates. Then the command is started and a
Chromium opens the list:

- first: nothing is known of the runs; how soon the list is there, and how soon it is complete;
- later: the summaries are kept (goal: a second from the request to the loaded page, with filters);
- the answer alone, without a browser;
- the report of one of them, first and then as it is kept in memory, and the list of its trials
  (goal: a second for the page that is kept, and for the list).

    python bench/serve.py --folder /tmp/many      keeps what is generated for the next time
    python bench/serve.py --runs 20               shows in a minute that it works
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

import harness
from large_run import multiply

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
from browser import CHROMIUM, Browser, browser
from synthetic_runs import write_run

TRIALS = 1000


def main() -> int:
    """Generate what is missing, then time."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--folder", type=Path, help="where the runs are kept")
    parser.add_argument("--jsonl", type=Path, help="append one JSON object per figure to this file")
    given = parser.parse_args()
    with TemporaryDirectory(prefix="vectrial-serve-") as scratch:
        folder = given.folder or Path(scratch) / "runs"
        generate(folder, given.runs)
        bench = harness.Bench(given.jsonl)
        measure(bench, folder, Path(scratch), given.repeats)
        return bench.finish()


def generate(folder: Path, runs: int) -> None:
    """Runs of `TRIALS` trials each; those that are there stay."""
    folder.mkdir(parents=True, exist_ok=True)
    first = folder / "run-000"
    if not first.is_dir():
        making = folder / ".making"
        shutil.rmtree(making, ignore_errors=True)
        stores = dict.fromkeys(("faiss", "hnswlib", "usearch", "chroma"), (1.0, "hnsw", True))
        run = write_run(making, stores=stores, efs=(16, 64), builds=((16, 128),))
        multiply(run, TRIALS, "repeats")
        making.rename(first)
    for number in range(1, runs):
        copy = folder / f"run-{number:03}"
        if not copy.is_dir():
            making = folder / ".making"
            shutil.rmtree(making, ignore_errors=True)
            shutil.copytree(first, making)
            with duckdb.connect(str(making / "run.duckdb")) as db:
                db.execute(
                    "update run set run_id = ?, suite_name = ?,"
                    " started_at = started_at - to_hours(?)",
                    [copy.name, f"suite-{number % 7}", number],
                )
            making.rename(copy)
        print(f"\r{number + 1} of {runs} runs", end="", file=sys.stderr)
    print(file=sys.stderr)


def measure(bench: harness.Bench, folder: Path, scratch: Path, repeats: int) -> None:
    """Start the command twice: with nothing known, and with all of it kept."""
    home = scratch / "home"
    names = len(list(folder.glob("run-*")))
    with serving(folder, home) as address:
        bench.add(harness.figure("list, nothing known: the answer", "s", [fetched(address)]))
        began = time.perf_counter()
        while b"still being read" in urllib.request.urlopen(address).read():
            time.sleep(0.2)
        took = time.perf_counter() - began
        bench.add(harness.figure(f"{names} runs read for the first time", "s", [took]))
    with serving(folder, home) as address:
        times = [fetched(address) for _ in range(repeats)]
        bench.add(harness.figure(f"list of {names} runs: the answer", "s", times))
        if CHROMIUM is None:
            print("no Chromium: the page in a browser is not timed", file=sys.stderr)
            return
        with browser(scratch / "profile") as page:
            for name, query in (
                ("list", ""),
                ("list, filtered by store", "?store=faiss&q=suite-1"),
            ):
                times = [loaded(page, f"{address}{query}") for _ in range(repeats)]
                said = f"{name}: loaded in a browser"
                bench.add(harness.figure(said, "s", times, goal=1.0))
            name = page.value("document.querySelector('.runs a').href")
            first = loaded(page, str(name))
            bench.add(harness.figure(f"report of {TRIALS} trials: loaded, first", "s", [first]))
            times = [loaded(page, str(name)) for _ in range(3)]
            kept = f"report of {TRIALS} trials: loaded, again"
            bench.add(harness.figure(kept, "s", times, goal=1.0))
            times = [loaded(page, f"{name}/trials") for _ in range(3)]
            bench.add(harness.figure(f"list of {TRIALS} trials: loaded", "s", times, goal=1.0))


def fetched(address: str) -> float:
    """Seconds until an answer is here whole."""
    began = time.perf_counter()
    urllib.request.urlopen(address).read()
    return time.perf_counter() - began


def loaded(page: Browser, address: str) -> float:
    """Seconds from the navigation to the page's load event, as the browser tells."""
    page.open(address, 1440, 900, dark=False)
    entry = "performance.getEntriesByType('navigation')[0]"
    page.wait_for(f"{entry}.loadEventEnd > 0")
    return float(page.value(f"{entry}.loadEventEnd")) / 1000


@contextmanager
def serving(folder: Path, home: Path) -> Iterator[str]:
    """The command, ended with the block; its address."""
    environment = {**os.environ, "VECTRIAL_HOME": str(home)}
    environment.pop("VECTRIAL_SERVE_TOKEN", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "vectrial.cli.main", "serve", str(folder), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)


if __name__ == "__main__":
    sys.exit(main())
