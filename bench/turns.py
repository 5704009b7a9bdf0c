"""What turns buy, and what they cost: `order = "turns"` beside `order = "interleaved"`.

- `width`: how wide the 95 % interval of the ratio of two stores is, by turns and by repeats that
  alternate, in the same minutes of the same hour; QPS and p99 at equal recall. A ratio of widths
  of 0.125 is an interval an eighth as wide.
- `power`: hnswlib beside itself slowed by 3, 5, 10 and 25 % of each search's time: how often it is
  called slower, by the number of loads and the minutes that they take. One run has `--repeats`
  loads of each; for each number, comparisons of so many loads are drawn from it.
- `alarms`: hnswlib beside itself: how often it is called better or worse, and how often a tie. One
  run has `--repeats` loads of each, which are cut into comparisons of `--loads`, and of more.
- `price`: QPS and p99 of each store in turns over those alone.

`--load 4` keeps four processes busy beside it, with a mix of arithmetic, a disk and sleep. With
`--stores redis-search pgvector` servers are measured, through the native engine.
`--seconds 1 --repeats 4 --tries 1` shows in a minute that it works.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import harness
from twin_stores import TWINS
from vectrial.analysis.analysis import sweeps
from vectrial.analysis.run_data import RunData, load
from vectrial.compare.build import compare, metrics_of
from vectrial.compare.cells import CompareOptions
from vectrial.compare.judge import Verdict
from vectrial.compare.sides import Side
from vectrial.model.store import Store
from vectrial.plan.plan import make_plan
from vectrial.results.writer import RunWriter
from vectrial.run.prepare import prepare, shape_of
from vectrial.run.runner import run_plan
from vectrial.stats.effects import Effect
from vectrial.stores import registry
from vectrial.suite.model import parse_suite

THRESHOLD = 0.05
SUITE = """
name = "turns"
order = "{order}"
repeats = {repeats}
trial_timeout_s = 600
[[datasets]]
name = "glove-words-50-50k"
rows = {rows}
queries = 1000
{stores}
{searches}
"""
GRAPH = (
    '[[stores]]\nstore = "{store}"\nindex = "hnsw"\nparams = {{ m = 16, ef_construction = 100 }}\n'
)
FLAT = '[[stores]]\nstore = "{store}"\nindex = "flat"\n'
SEARCH = """
[[experiments]]
experiment = "search"
stores = {stores}
search = {{ {settings} }}
min_s = {seconds}
max_s = {longest}
"""
#: Numbers of loads of which `power` draws comparisons, and how many of each.
LOADS, DRAWS = (3, 4, 6, 8, 12, 16, 24), 200
#: A process that is busy with arithmetic, a disk and sleep, by turns of random length.
BUSY = """
import os, random, tempfile, time, zlib
random.seed({seed}); parent = os.getppid(); data = os.urandom(1 << 20)
with tempfile.TemporaryFile() as file:
    while os.getppid() == parent:
        end = time.monotonic() + random.uniform(0.05, 0.8); kind = random.choice("cccds")
        while time.monotonic() < end:
            if kind == "c": zlib.compress(data, 6)
            elif kind == "d": file.seek(0); file.write(data); file.flush(); os.fsync(file.fileno())
            else: time.sleep(0.02)
"""


class Unseen:
    """Nobody looks on."""

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes beside it."""
    started = [
        subprocess.Popen([sys.executable, "-c", BUSY.format(seed=seed)])
        for seed in range(processes)
    ]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


def kind_of(name: str) -> type[Store]:
    """A store, or a twin of hnswlib."""
    return TWINS.get(name) or registry.load(name)


def suite_of(given: argparse.Namespace, stores: Sequence[str], order: str, repeats: int) -> str:
    """The suite that measures these stores: their graphs, or all rows where they have none."""
    is_graph = {name: "hnsw" in kind_of(name).capabilities.indexes for name in stores}
    entries = [(GRAPH if is_graph[name] else FLAT).format(store=name) for name in stores]
    settings = {True: f"ef_search = [{', '.join(map(str, given.ef))}]", False: ""}
    searches = [
        SEARCH.format(
            stores=[name for name in stores if is_graph[name] == graph],
            settings=settings[graph],
            seconds=given.seconds,
            longest=given.seconds * 2 + 1,
        )
        for graph in sorted(set(is_graph.values()))
    ]
    return SUITE.format(
        order=order,
        repeats=repeats,
        rows=given.rows,
        stores="".join(entries),
        searches="".join(searches),
    )


def measured(folder: Path, text: str) -> float:
    """Measure a suite, or go on with it; the seconds that takes."""
    began = time.monotonic()
    suite = parse_suite(text, "turns")
    plan = make_plan(
        suite,
        where="turns",
        load_store=kind_of,
        shape_of=shape_of,
        known_stores=[*registry.names(), *TWINS],
    )
    with RunWriter(folder) as writer:
        prepare(plan, writer, lambda *_: None, suite, text)
        run_plan(plan, writer, Unseen())  # type: ignore[arg-type]  # it has every method
        writer.finish()
    return time.monotonic() - began


def alternating(folder: Path, given: argparse.Namespace, pair: Sequence[str], for_s: float) -> int:
    """Repeats that alternate, as many as fit this time, and three at least; their number."""
    began, repeats = time.monotonic(), 0
    while repeats < 3 or (time.monotonic() - began) * (repeats + 1) / repeats <= for_s:
        repeats += 1
        measured(folder, suite_of(given, pair, "interleaved", repeats))
    return repeats


def verdicts(run: RunData, pair: Sequence[str], metrics: Sequence[str]) -> dict[str, Verdict]:
    """B against A at the lowest recall that is compared, by metric, where they are comparable; each
    metric is a family of its own."""
    found = {}
    for metric in metrics:
        asked = CompareOptions(metrics_of([metric]))
        cells = compare(Side(run, pair[0]), Side(run, pair[1]), asked, THRESHOLD).verdicts
        for verdict in cells:
            if verdict.effect is not None:
                found.setdefault(metric, verdict)
            else:
                print(f"{pair}: {metric}: {verdict.reason}", file=sys.stderr)
    return found


def claims(verdict: Verdict) -> dict[str, Effect]:
    """What turns say of the indexes that were measured, and of the stores."""
    paired = verdict.cell.paired
    assert paired is not None, "they took turns"
    found = {"these indexes": paired.indexes}
    return found if paired.store is None else {**found, "the stores": paired.store}


def wide(effect: Effect) -> float:
    """The width of its interval, as a logarithm."""
    return math.log(effect.high / effect.low)


def text_of(effect: Effect) -> str:
    """For people."""
    return f"{effect.ratio:.3f} ({effect.low:.3f} to {effect.high:.3f})"


def width(given: argparse.Namespace, bench: harness.Bench) -> None:
    """Widths of intervals in the same minutes."""
    for pair in itertools.combinations(given.stores, 2):
        ratios: dict[str, list[tuple[float, float]]] = {}
        for _ in range(given.tries):
            with TemporaryDirectory() as place:
                turned, other = Path(place) / "turns", Path(place) / "repeats"
                took_s = measured(turned, suite_of(given, pair, "turns", given.repeats))
                repeats = alternating(other, given, pair, took_s)
                both = [
                    verdicts(load(one, is_own_run=True), pair, ("qps", "p99"))
                    for one in (turned, other)
                ]
            for metric in both[0].keys() & both[1].keys():
                for claim, ours in claims(both[0][metric]).items():
                    theirs = both[1][metric].effect
                    assert theirs is not None, "it was compared"
                    key = f"{metric}, {claim}"
                    ratios.setdefault(key, []).append((wide(ours), wide(theirs)))
                    print(
                        f"{pair}, {key}, {took_s:.0f} s: {text_of(ours)}; by {repeats} repeats"
                        f" {text_of(theirs)}",
                        file=sys.stderr,
                    )
        for metric, widths in sorted(ratios.items()):
            ours, theirs = ([100 * one for one in side] for side in zip(*widths, strict=True))
            name = f"{metric}, {' and '.join(pair)}{load_label(given)}"
            goal = 1 / 8 if metric.startswith("qps") else 1 / 4
            bench.add(harness.compare(name, "%", ours, theirs, baseline="repeats", goal=goal))


def many_loads(given: argparse.Namespace, other: str) -> tuple[RunData, float]:
    """A run of many loads of hnswlib and a twin, in turns; the seconds that a load of both took."""
    with TemporaryDirectory() as place:
        folder = Path(place) / "turns"
        took_s = measured(folder, suite_of(given, ("hnswlib", other), "turns", given.repeats))
        return load(folder, is_own_run=True), took_s / given.repeats


def of_loads(run: RunData, repeats: Collection[int]) -> RunData:
    """The run with these repeats only."""
    trials = tuple(trial for trial in run.trials if trial.repeat in repeats)
    return replace(run, trials=trials)


def add_shares(
    given: argparse.Namespace,
    bench: harness.Bench,
    other: str,
    comparisons: Sequence[RunData],
    when: str,
) -> None:
    """Shares of the verdicts on a twin beside hnswlib, by metric."""
    metrics = ("qps", "p99") if other == "twin" else ("qps",)
    kinds: dict[str, Counter[str]] = {metric: Counter() for metric in metrics}
    for run in comparisons:
        for metric, verdict in verdicts(run, ("hnswlib", other), metrics).items():
            kinds[metric][
                {"worse": "slower", "better": "faster"}.get(verdict.kind, verdict.kind)
            ] += 1
    for metric, counts in kinds.items():
        for kind in ("slower", "faster", "tie", "undecided"):
            share = 100 * counts[kind] / max(1, counts.total())
            name = f"{metric}, {other}, {counts.total()} comparisons of {when}{load_label(given)}"
            wrong = kind == "faster" or (kind == "slower" and other == "twin")
            goal = 5.0 if wrong else None
            bench.add(harness.Figure(f"{name}: {kind}", share, "%", share, share, goal=goal))
            print(f"{name}: {kind} {share:.1f} %", file=sys.stderr)


def power(given: argparse.Namespace, bench: harness.Bench) -> None:
    """How often a slowdown is called one, by the number of loads."""
    rng = np.random.default_rng(20_261_129)
    for other in given.twins:
        run, load_s = many_loads(given, other)
        for count in LOADS:
            if count > given.repeats // 2:
                break
            drawn = [
                of_loads(run, rng.choice(np.arange(1, given.repeats + 1), count, replace=False))
                for _ in range(DRAWS)
            ]
            add_shares(given, bench, other, drawn, f"{count} loads, {count * load_s:.0f} s")


def alarms(given: argparse.Namespace, bench: harness.Bench) -> None:
    """How often the same is called another: by few loads, and by as many as make a tie."""
    run, load_s = many_loads(given, "twin")
    for count in (given.loads, 4 * given.loads, 16 * given.loads):
        starts = range(1, given.repeats - count + 2, count)
        parts = [of_loads(run, range(start, start + count)) for start in starts]
        if parts:
            add_shares(given, bench, "twin", parts, f"{count} loads, {count * load_s:.0f} s")


def price(given: argparse.Namespace, bench: harness.Bench) -> None:
    """QPS and p99 in turns over those alone, at the first setting."""
    figures: dict[tuple[str, str], list[list[float]]] = {}
    for _ in range(given.tries):
        for at, order in enumerate(("turns", "interleaved")):
            with TemporaryDirectory() as place:
                folder = Path(place) / order
                measured(folder, suite_of(given, given.stores, order, 1))
                for sweep in sweeps(load(folder, is_own_run=True)):
                    for point in sweep.points:
                        if point.params.get("ef_search", given.ef[0]) != given.ef[0]:
                            continue
                        for metric in ("qps", "latency_p99"):
                            found = figures.setdefault((metric, point.series.store), [[], []])
                            found[at].append(point.value(metric) or math.nan)
    for (metric, name), (ours, alone) in sorted(figures.items()):
        if any(map(math.isnan, [*ours, *alone])):
            continue  # too few requests for a p99
        title, unit = ("QPS", "1/s") if metric == "qps" else ("p99", "us")
        title = f"{title} in turns, {name}{load_label(given)}"
        bench.add(harness.compare(title, unit, ours, alone, baseline="alone"))


def load_label(given: argparse.Namespace) -> str:
    """What else the machine does, in a name."""
    return f", {given.load} busy processes" if given.load else ""


def main() -> int:
    """Measure, and print figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = {"width": width, "power": power, "alarms": alarms, "price": price}
    parser.add_argument("what", choices=what, nargs="?", default="width")
    parser.add_argument("--jsonl", type=Path, help="append one JSON object per figure to this file")
    parser.add_argument("--load", type=int, default=0, help="busy processes beside it")
    parser.add_argument("--stores", nargs="+", default=["hnswlib", "faiss", "usearch"])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--ef", type=int, nargs="+", default=[16, 128])
    parser.add_argument("--repeats", type=int, default=8, help="loads of each store")
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="of each operating point and load"
    )
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument(
        "--loads", type=int, default=4, help="of each store in an alarm's comparison"
    )
    parser.add_argument(
        "--twins", nargs="+", default=["slower-3", "slower-5", "slower-10", "slower-25"]
    )
    given = parser.parse_args()
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)  # measuring processes know the twins
    bench = harness.Bench(given.jsonl)
    with busy(given.load):
        what[given.what](given, bench)
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
