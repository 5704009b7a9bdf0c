"""How often `vectrial compare` is wrong: false alarms, and slower servers that it does not find.

One Redis, always behind a proxy of our own (`delay_proxy.py`). Runs of the same suite, plain ones
and some slowed by a tenth of the server's own time, take turns: the first repeat of each, then the
second of each in the opposite order, and so on, each with fresh connections, load and gate. Then

- every two plain runs are compared: better or worse is a false alarm (goal: at most 5 %), and how
  many could not be compared, since the client was found out, is told beside it;
- every plain run is compared with every slowed one: it is missed where it is not called worse
  (goal: at most 5 %).

A comparison is of answers per second, at the threshold of 5 %. A tenth of the server's time is
some 8 % of what the client sees, since the proxy and the client take their part. Ten plain runs are
45 comparisons with themselves; pairs share runs, so that the rates are less certain than of as many
independent ones: the range beside a rate comes from leaving out one plain run at a time.

Runs are kept in `--folder`, one for each revision of the code: what is there is not measured again,
so that the bench goes on where it was interrupted, and takes longer when asked for more. With its
defaults it takes some 40 minutes on two quiet cores.
`--plain 2 --slowed 1 --repeats 3 --seconds 1` shows in a minute that it works.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import harness
from vectrial.analysis.run_data import RunData, load
from vectrial.compare.build import compare, metrics_of
from vectrial.compare.cells import CompareOptions
from vectrial.compare.judge import Kind
from vectrial.compare.sides import Side
from vectrial.model.errors import VectrialError
from vectrial.model.provider import Provider
from vectrial.model.store import Address
from vectrial.servers.provide import prepare, provide
from vectrial.stores.redis.server import REDIS
from vectrial.telemetry.environment import git

SLOWER = 0.1
THRESHOLD = 0.05
METRICS = ("qps",)
ALARMS = {Kind.WORSE, Kind.BETTER}
SUITE = """
name = "verdicts"
repeats = {repeats}
[[datasets]]
name = "glove-words-50-50k"
rows = 3000
queries = 200
[[stores]]
store = "redis"
index = "hnsw"
params = {{ m = 16, ef_construction = 64 }}
[[experiments]]
experiment = "search"
search = {{ ef_search = 400 }}
min_s = {seconds}
"""


@contextmanager
def redis_server(log: Path) -> Iterator[Address]:
    """One Redis for all runs."""
    prepare(REDIS, lambda text: print(text, file=sys.stderr), Provider.LOCAL)
    with TemporaryDirectory() as folder:
        server = provide(REDIS, Path(folder) / "server", provider=Provider.LOCAL, log=log)
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


def schedule(plain: int, slowed: int) -> list[tuple[str, float]]:
    """Names of runs with how much slower they are, the slowed ones spread over the plain."""
    places = [(i + 0.5) / plain for i in range(plain)], [(i + 0.5) / slowed for i in range(slowed)]
    named = [(at, f"plain-{i:02}", 0.0) for i, at in enumerate(places[0])]
    named += [(at, f"slowed-{i:02}", SLOWER) for i, at in enumerate(places[1])]
    return [(name, slower) for _, name, slower in sorted(named)]


def repeats_of(out: Path) -> int:
    """How many repeats the run in a folder holds."""
    try:
        run = load(out / "latest")
    except VectrialError:
        return 0
    return max((trial.repeat for trial in run.trials if trial.status == "ok"), default=0)


def measure(out: Path, suite: Path, port: int, password: str, repeats: int) -> None:
    """Make the run, or go on with it, until it has so many repeats."""
    environment = {
        **os.environ,
        "VECTRIAL_REDIS_ADDRESS": f"127.0.0.1:redis={port}",
        "VECTRIAL_REDIS_PASSWORD": password,
    }
    begun = (out / "latest" / "suite.toml").exists()
    what = ["--resume", str(out / "latest")] if begun else [str(suite), "--out", str(out)]
    what += ["--repeats", str(repeats), "--no-report"]
    command = [sys.executable, "-m", "vectrial.cli.main", "run", *what]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


def kinds(a: RunData, b: RunData) -> set[Kind]:
    """The verdicts of B against A."""
    asked = CompareOptions(metrics_of(METRICS))
    return {v.kind for v in compare(Side(a), Side(b), asked, THRESHOLD).verdicts}


def rate(wrong: dict[tuple[str, str], bool], left_out: str = "") -> float:
    """Percent of the comparisons that were wrong, without those of one run."""
    counted = [bad for pair, bad in wrong.items() if left_out not in pair]
    # Of two runs nothing is left without one of them.
    counted = counted or list(wrong.values())
    return 100 * sum(counted) / len(counted)


def figure(name: str, wrong: dict[tuple[str, str], bool]) -> harness.Figure:
    """The rate, with its range where one plain run at a time is left out."""
    runs = dict.fromkeys(run for pair in wrong for run in pair if run.startswith("plain"))
    spread = [rate(wrong, run) for run in runs]
    return harness.Figure(name, rate(wrong), "%", min(spread), max(spread), goal=5.0)


def judged(
    pairs: Sequence[tuple[str, str]], runs: dict[str, RunData], bad: Callable[[set[Kind]], bool]
) -> dict[tuple[str, str], bool]:
    """Whether each comparison was wrong."""
    wrong = {(a, b): bad(kinds(runs[a], runs[b])) for a, b in pairs}
    for (a, b), is_wrong in wrong.items():
        if is_wrong:
            found = ", ".join(sorted(kinds(runs[a], runs[b])))
            print(f"{a} against {b}: {found}", file=sys.stderr)
    return wrong


def main() -> int:
    """Measure what is missing, compare, and print the rates."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jsonl", type=Path, help="append one JSON object per figure to this file")
    revision = str(git(Path(__file__).parent)["revision"])[:12]
    parser.add_argument("--folder", type=Path, default=Path(f"runs/verdicts-{revision}"))
    parser.add_argument("--plain", type=int, default=10)
    parser.add_argument("--slowed", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each search phase")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    suite = given.folder / "verdicts.toml"
    suite.write_text(SUITE.format(repeats=given.repeats, seconds=given.seconds))
    planned = schedule(given.plain, given.slowed)
    with ExitStack() as standing:
        at: Address | None = None
        for turn in range(1, given.repeats + 1):
            for name, slower in planned if turn % 2 else planned[::-1]:
                if repeats_of(given.folder / name) >= turn:
                    continue
                at = at or standing.enter_context(redis_server(given.folder / "redis.log"))
                print(f"{name}, repeat {turn}", file=sys.stderr)
                with proxy(at.host, at.ports["redis"], slower) as port:
                    measure(given.folder / name, suite, port, at.secrets["password"], turn)
    runs = {name: load(given.folder / name / "latest") for name, _ in planned}
    plain = [name for name in runs if name.startswith("plain")]
    slowed = [name for name in runs if name.startswith("slowed")]
    pairs = list(itertools.combinations(plain, 2))
    alarms = judged(pairs, runs, lambda found: bool(found & ALARMS))
    # On a busy machine the client is found out; such runs raise no alarm, and say nothing either.
    mute = judged(pairs, runs, lambda found: Kind.NOT_COMPARABLE in found)
    missed = judged(
        list(itertools.product(plain, slowed)),
        runs,
        lambda found: Kind.WORSE not in found or Kind.BETTER in found,
    )
    bench = harness.Bench(given.jsonl)
    repeats = f"{given.repeats} repeats"
    if alarms:
        bench.add(replace(figure("self-comparisons that say nothing", mute), goal=None))
        bench.add(figure(f"false alarms of {len(alarms)} self-comparisons, {repeats}", alarms))
    if missed:
        slow = f"missed of {len(missed)} with the server slowed by {SLOWER * 100:.0f} %, {repeats}"
        bench.add(figure(slow, missed))
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
