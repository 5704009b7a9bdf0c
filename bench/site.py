"""How long `vectrial site` takes over 200 runs of 1,000 trials, and how soon its pages are there.

The runs are those of `bench/serve.py`. The site is built by the command itself (goal: 2 minutes on
two cores); then a Chromium opens the front page, a question, a store, a dataset and a run from the
disk (goal: a second each, from the navigation to the loaded page).

    python bench/site.py --folder /tmp/many      keeps the runs that are generated
    python bench/site.py --runs 20               shows in a minute that it works
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import harness
from serve import TRIALS, generate, loaded

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
from browser import CHROMIUM, browser

from vectrial_web.site.build import FIGURES

#: The site of so many runs is to be there within so many seconds.
_RUNS, _GOAL_S = 200, 120.0


def main() -> int:
    """Generate what is missing, build the site, and open it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=_RUNS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where the runs are kept")
    parser.add_argument("--jsonl", type=Path, help="append one JSON object per figure to this file")
    given = parser.parse_args()
    with TemporaryDirectory(prefix="vectrial-site-") as scratch:
        folder = given.folder or Path(scratch) / "runs"
        generate(folder, given.runs)
        bench = harness.Bench(given.jsonl)
        chosen = sorted(folder.glob("run-*"))[: given.runs]
        built(bench, chosen, Path(scratch) / "site")
        opened(bench, Path(scratch), given.repeats)
        return bench.finish()


def built(bench: harness.Bench, runs: list[Path], out: Path) -> None:
    """Time the command, and the processor time that it takes."""
    command = [sys.executable, "-m", "vectrial.cli.main", "site", *map(str, runs)]
    command += ["--figures", str(max(1, FIGURES // _RUNS))]  # of fewer runs as many as of all
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run([*command, "--out", str(out)], check=True, stdout=subprocess.DEVNULL)
    took = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    name = f"site of {len(runs)} runs of {TRIALS} trials"
    bench.add(harness.figure(name, "s", [took], goal=_GOAL_S * len(runs) / _RUNS))
    bench.add(harness.figure(f"{name}: processor time", "s", [used]))
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    bench.add(harness.figure(f"{name}: size", "MB", [size / 1e6]))


def opened(bench: harness.Bench, scratch: Path, repeats: int) -> None:
    """Time the pages in a browser."""
    if CHROMIUM is None:
        print("no Chromium: pages are not timed", file=sys.stderr)
        return
    site = scratch / "site"
    run = next(path.parent.name for path in sorted(site.glob("runs/*/index.html")))
    pages = ["index.html", "questions/fastest.html", "runs.html", f"runs/{run}/index.html"]
    pages += [f"runs/{run}/values-1.html"]
    for folder in ("stores", "datasets"):
        largest = max((site / folder).glob("*.html"), key=lambda path: path.stat().st_size)
        pages.append(f"{folder}/{largest.name}")
    with browser(scratch / "profile") as page:
        for name in pages:
            times = [loaded(page, (site / name).as_uri()) for _ in range(repeats)]
            said = name.replace(run, "RUN")
            bench.add(harness.figure(f"{said}: loaded in a browser", "s", times, goal=1.0))


if __name__ == "__main__":
    sys.exit(main())
