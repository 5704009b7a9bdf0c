"""How often `vectrial compare` is right, wrong, or decides nothing, where the truth is known.

Runs of one suite take turns: the first repeat of each, then the second of each in the opposite
order, and so on, each with fresh connections, load and gate. Most are of one Redis behind a proxy
of our own (`delay_proxy.py`), which is slower by a share of the server's own time; some are of
hnswlib, in process, where the machine's pace is not known. Then they are compared, pair by pair:

- of the same thing twice, better or worse is a false alarm (goal: at most 5 % of the cells);
- of a server slowed by 10 % or more, better is a false alarm, and so is a tie (goal: none). How
  often it is called worse is the power.

A tenth of the server's time is some 8 % of what the client sees, since proxy and client take their
part; tenfold is as it says. QPS, p99 and recall are compared, and of the same thing the load time
too. Pairs share runs, so that the rates are less certain than of as many independent ones: the
range beside a rate comes from leaving out one run at a time. `--load 2` keeps two processors busy
with something else while it measures.

Runs are kept in `--folder`, one for each revision of the code: what is there is not measured again,
so that the bench goes on where it was interrupted, and takes longer when asked for more.
`--plain 2 --slowed 1 --libraries 2 --repeats 3 --seconds 1` shows in minutes that it works.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import harness
from vectrial.analysis.run_data import RunData, load
from vectrial.compare.build import compare, metrics_of
from vectrial.compare.cells import CompareOptions
from vectrial.compare.sides import Side
from vectrial.model.errors import VectrialError
from vectrial.model.placement import Provider
from vectrial.model.store import Address
from vectrial.servers.provide import make_server, prepare
from vectrial.stats.verdict import VerdictKind
from vectrial.stores.redis.server import REDIS
from vectrial.telemetry.environment import git_facts

THRESHOLD = 0.05
#: Compared each as a family of its own, with the experiment that it is of. Of a slowed server the
#: truth of the load is not known.
METRICS = {"qps": "search", "p99": "search", "recall": "search", "ready_s": "ingest"}
#: By the name of a run, up to its number: how much slower the server is, as a share of its time.
SLOWER = {"plain": 0.0, "slowed-10": 0.1, "slowed-20": 0.2, "tenfold": 9.0}
SUITE = """
name = "verdicts"
repeats = {repeats}
[[datasets]]
name = "glove-words-50-50k"
rows = 3000
queries = 200
[[stores]]
store = "{store}"
index = "hnsw"
params = {{ m = 16, ef_construction = 64 }}
[[experiments]]
experiment = "search"
search = {{ ef_search = 400 }}
min_s = {seconds}
[[experiments]]
experiment = "ingest"
checkpoints = [1.0]
"""


@contextmanager
def redis_server(log: Path) -> Iterator[Address]:
    """One Redis for all runs."""
    prepare(REDIS, lambda text: print(text, file=sys.stderr), Provider.LOCAL)
    with TemporaryDirectory() as folder:
        server = make_server(REDIS, Path(folder) / "server", provider=Provider.LOCAL, log=log)
        with server:
            yield server.address


@contextmanager
def proxy(host: str, port: int, slower: float) -> Iterator[int]:
    """The proxy before it: its port."""
    script = Path(__file__).with_name("delay_proxy.py")
    command = [sys.executable, script, "--to", f"{host}:{port}", "--slower", str(slower)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()


@contextmanager
def busy(processors: int) -> Iterator[None]:
    """So many processes that do nothing but keep a processor busy."""
    loop: list[str] = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(loop) for _ in range(processors)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def schedule(plain: int, slowed: int, libraries: int) -> list[str]:
    """Names of runs in the order of a turn, each kind spread over it."""
    counts = {"plain": plain, "library": libraries}
    counts |= {name: slowed for name in SLOWER if name != "plain"}
    places = [
        ((i + 0.5) / count, f"{name}-{i:02}")
        for name, count in counts.items()
        for i in range(count)
    ]
    return [name for _, name in sorted(places)]


def kind_of(name: str) -> str:
    """The kind of a run, by its name."""
    return name.rpartition("-")[0]


def repeats_of(out: Path) -> int:
    """How many repeats the run in a folder holds."""
    try:
        run = load(out / "latest")
    except VectrialError:
        return 0
    return max((trial.repeat for trial in run.trials if trial.status == "ok"), default=0)


def measure(out: Path, suite: Path, repeats: int, variables: Mapping[str, str]) -> None:
    """Make the run, or go on with it, until it has so many repeats."""
    begun = (out / "latest" / "suite.toml").exists()
    what = ["--resume", str(out / "latest")] if begun else [str(suite), "--out", str(out)]
    what += ["--repeats", str(repeats), "--no-report", "--no-remeasure"]
    command = [sys.executable, "-m", "vectrial.cli.main", "run", *what]
    subprocess.run(command, env={**os.environ, **variables}, check=True, stdout=subprocess.DEVNULL)


def measure_all(given: argparse.Namespace, planned: Sequence[str]) -> None:
    """Measure what is missing, turn by turn."""
    for store in ("redis", "hnswlib"):
        text = SUITE.format(repeats=given.repeats, seconds=given.seconds, store=store)
        (given.folder / f"{store}.toml").write_text(text)
    with ExitStack() as standing:
        standing.enter_context(busy(given.load))
        at: Address | None = None
        for turn in range(1, given.repeats + 1):
            for name in planned if turn % 2 else planned[::-1]:
                out = given.folder / name
                if repeats_of(out) >= turn:
                    continue
                print(f"{name}, repeat {turn}", file=sys.stderr)
                if kind_of(name) == "library":
                    measure(out, given.folder / "hnswlib.toml", turn, {})
                    continue
                at = at or standing.enter_context(redis_server(given.folder / "redis.log"))
                with proxy(at.host, at.ports["redis"], SLOWER[kind_of(name)]) as port:
                    address = {
                        "VECTRIAL_REDIS_ADDRESS": f"127.0.0.1:redis={port}",
                        "VECTRIAL_REDIS_PASSWORD": at.secrets["password"],
                    }
                    measure(out, given.folder / "redis.toml", turn, address)


@dataclass(frozen=True)
class Pairs:
    """Verdicts on pairs of runs of one truth. found: by the names of both the verdicts of their
    cells."""

    title: str
    found: Mapping[tuple[str, str], Sequence[VerdictKind]]

    def share(self, kinds: Sequence[VerdictKind], left_out: str = "") -> float:
        """Percent of the cells with one of these verdicts, without the pairs of one run."""
        cells = [kind for pair, own in self.found.items() if left_out not in pair for kind in own]
        # Of two runs nothing is left without one of them.
        cells = cells or [kind for own in self.found.values() for kind in own]
        return 100 * sum(kind in kinds for kind in cells) / len(cells)

    def figure(self, kind: VerdictKind, *, wrong: bool) -> harness.Figure:
        """The share of a verdict with its range where one run at a time is left out."""
        runs = dict.fromkeys(run for pair in self.found for run in pair)
        spread = [self.share([kind], run) for run in runs]
        goal = {VerdictKind.TIE: 0.0}.get(kind, 5.0) if wrong else None
        name = f"{self.title}: {kind}"
        return harness.Figure(name, self.share([kind]), "%", min(spread), max(spread), goal=goal)


def compared(
    title: str, pairs: Sequence[tuple[str, str]], runs: Mapping[str, RunData], metric: str
) -> Pairs:
    """The verdicts on pairs of runs by one metric."""
    asked = CompareOptions(metrics_of([metric]), experiments=(METRICS[metric],))
    found = {}
    for a, b in pairs:
        verdicts = compare(Side(runs[a]), Side(runs[b]), asked, THRESHOLD).verdicts
        found[a, b] = [verdict.kind for verdict in verdicts]
        print(f"{metric}: {a}, {b}: {dict(Counter(map(str, found[a, b])))}", file=sys.stderr)
    return Pairs(f"{metric}, {title}, {len(pairs)} pairs", found)


def main() -> int:
    """Measure what is missing, compare, and print the share of each verdict."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jsonl", type=Path, help="append one JSON object per figure to this file")
    parser.add_argument("--load", type=int, default=0, help="processors kept busy beside it")
    revision = str(git_facts(Path(__file__).parent)["revision"])[:12]
    parser.add_argument("--folder", type=Path, help="default: runs/verdicts-REVISION-LOAD")
    parser.add_argument("--plain", type=int, default=8)
    parser.add_argument("--slowed", type=int, default=1, help="runs of each slower server")
    parser.add_argument("--libraries", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each search phase")
    given = parser.parse_args()
    given.folder = given.folder or Path(f"runs/verdicts-{revision}-{given.load}")
    given.folder.mkdir(parents=True, exist_ok=True)
    planned = schedule(given.plain, given.slowed, given.libraries)
    measure_all(given, planned)
    runs = {name: load(given.folder / name / "latest") for name in planned}
    of = {kind: [n for n in planned if kind_of(n) == kind] for kind in ("library", *SLOWER)}
    beside = f", {given.load} processors busy" if given.load else ""
    bench = harness.Bench(given.jsonl)
    for metric in METRICS:
        for kind, names in of.items():
            slower = SLOWER.get(kind, 0.0) > 0
            if slower and metric in ("recall", "ready_s"):
                continue
            pairs = (
                [*itertools.product(of["plain"], names)]
                if slower
                else [*itertools.combinations(names, 2)]
            )
            if not pairs:
                continue
            title = (
                f"{kind} server" if slower else f"the same {'server' if kind == 'plain' else kind}"
            )
            found = compared(f"{title}{beside}", pairs, runs, metric)
            false = (
                {VerdictKind.BETTER, VerdictKind.TIE}
                if slower
                else {VerdictKind.BETTER, VerdictKind.WORSE}
            )
            for verdict in VerdictKind:
                bench.add(found.figure(verdict, wrong=verdict in false))
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
