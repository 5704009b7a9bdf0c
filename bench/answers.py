"""Vectrial's answers, held against answers found by other means (`oracles/`, which import nothing
of it).

- `tune`: the best of a grid of 16 builds at equal recall, over the choice; all of them take turns
  in one process, and processor time counts.
- `quick`: pairs of stores in another order than by turns in one process, and pairs that differ by
  20 % or more and were not told apart.
- `forecast`: shares of figures at two and four times the rows that lie outside their intervals, and
  the widths of these.
- `fit`: the least memory in the answer, over that of a plain control group with the library alone.
- `capacity`: the highest rate that a plain sender holds at the least search parameter, over the
  answer; and how far two answers in a row lie apart.
- `estimate`: the time that a suite took, over the time that was said.

`python bench/answers.py tune quick --rows 20000` asks some of them; without names all, in about
four hours. `--load 2` keeps so many processes busy beside it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import harness
from oracles import graphs, group, sender, slices
from oracles.vectors import Neighbours, Vectors, clustered
from turns import busy

LIBRARIES = ("hnswlib", "faiss", "usearch")
#: The command line, as a process.
VECTRIAL = (sys.executable, "-m", "vectrial.cli.main")
GRID = tuple(itertools.product((8, 16, 24, 32), (40, 100, 200, 400)))
#: What `quick` builds.
QUICK_BUILD = (16, 128)
SIZES = (5_000, 10_000, 20_000, 40_000)
ALONE = Path(__file__).parent / "oracles" / "alone.py"
GRAPH = '[[stores]]\nstore = "{}"\nindex = "hnsw"\nparams = {{ m = 16, ef_construction = 100 }}\n'
GROWTH = """
name = "grow"
repeats = 3
{datasets}
{graphs}
[[stores]]
store = "sqlite-vec"
index = "flat"
[[experiments]]
experiment = "ingest"
checkpoints = [1.0]
probes = 0
[[experiments]]
experiment = "storage"
[[experiments]]
experiment = "search"
search = {{ ef_search = [24, 40, 64, 96, 140, 220] }}
"""


def growth(name: str, sizes: Sequence[int]) -> str:
    """A suite of libraries on these sizes of a dataset."""
    datasets = [f'[[datasets]]\nname = "{name}"\nrows = {n}' for n in sizes]
    return GROWTH.format(
        datasets="\n".join(datasets), graphs="".join(GRAPH.format(one) for one in LIBRARIES)
    )


def vectrial(*words: object, env: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """The objects that a command prints with `--format jsonl`."""
    command = [*VECTRIAL, *map(str, words), "--format", "jsonl"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **(env or {})}
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{shlex.join(command)}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


@cache
def imported(rows: int, dim: int) -> Vectors:
    """Clustered vectors, known to Vectrial by their name."""
    data = clustered(rows, dim)
    with TemporaryDirectory() as place:
        files = {name: f"{place}/{name}.npy" for name in ("rows", "queries")}
        np.save(files["rows"], data.rows)
        np.save(files["queries"], data.queries)
        vectrial(
            "data", "import", files["rows"], "--queries", files["queries"], "--metric", "l2",
            "--name", data.name, "--yes",
        )  # fmt: skip
    return data


@cache
def words(rows: int) -> Vectors:
    """Word vectors of the catalogue, with half of the queries for Vectrial's own recall."""
    from vectrial.datasets import catalog, library

    name = "glove-words-50-50k"
    catalog.ensure(name, lambda *_: None)
    found = library.load(name)
    queries = np.array(found.queries, np.float32)
    return Vectors(name, "cosine", np.array(found.vectors[:rows], np.float32), queries, queries)


def of_every_kind(rows: int) -> list[Vectors]:
    """Clusters, real words and many dimensions."""
    return [imported(rows, 64), words(rows), imported(rows, 384)]


def contestant(graph: graphs.Graph, ef: int) -> slices.Contestant:
    """A graph at one setting."""
    return slices.Contestant(graph.name, lambda: graph.set_ef(ef), graph.search)


# -- tune --------------------------------------------------------------------------------------


def tune(given: argparse.Namespace, bench: harness.Bench) -> None:
    """The best of a grid over the choice, for each library, recall and dataset."""
    for data in of_every_kind(given.rows):
        truth = Neighbours.find(data, data.fresh[:500])
        for library in given.stores:
            built = [graphs.build(library, data, m, effort) for m, effort in GRID]
            for recall in (0.95, 0.98):
                found = vectrial(
                    "tune", library, "--dataset", data.name, "--rows", given.rows,
                    "--recall", recall, "--out", given.out,
                )  # fmt: skip
                choice = next(one for one in found if one["kind"] == "choice")
                if choice["params"] is None:
                    print(f"{library} {data.name} {recall}: {choice['reason']}", file=sys.stderr)
                    continue
                _compare_choice(
                    bench, f"tune {library} {data.name} {recall}", built, choice, truth, recall
                )


def _compare_choice(
    bench: harness.Bench,
    name: str,
    built: Sequence[graphs.Graph],
    choice: Mapping[str, Any],
    truth: Neighbours,
    recall: float,
) -> None:
    params, search = choice["params"], choice["search"]
    pick = graphs.build(
        built[0].library, truth.data, int(params["m"]), int(params["ef_construction"])
    )
    needed = [(one, one.least_ef(truth, recall)) for one in built]
    able = [contestant(one, ef) for one, ef in needed if ef is not None]
    able.append(contestant(pick, int(search["ef_search"])))
    speeds = slices.speeds(able, truth.queries)
    best = int(np.median(speeds[:, :-1], axis=0).argmax())
    pick.set_ef(int(search["ef_search"]))
    said, own = choice["recall_mean"], truth.recall(pick.answers(truth.queries))
    middle, low, high = slices.ratio(speeds[:, best], speeds[:, -1])
    print(
        f"{name}: {pick.name} ef {search['ef_search']}, recall {said:.4f} ({own:.4f} on other"
        f" queries); the best is {able[best].name}: {middle:.3f} ({low:.3f} to {high:.3f})",
        flush=True,
    )
    ratios = list(speeds[:, best] / speeds[:, -1])
    bench.add(harness.figure(f"{name}: the best of a grid over the choice", "", ratios, 1 / 0.97))


# -- quick -------------------------------------------------------------------------------------


def quick(given: argparse.Namespace, bench: harness.Bench) -> None:
    """Orders and verdicts, held against turns in one process."""
    for rows, minutes in ((10_000, 3), (given.rows * 5, 5)):
        for data in (imported(rows, 64), words(min(rows, 50_000))):
            count = len(data.rows)
            truth = Neighbours.find(data, data.fresh[:500])
            built = [graphs.build(library, data, *QUICK_BUILD) for library in LIBRARIES]
            able = [contestant(one, one.least_ef(truth, 0.95) or 0) for one in built]
            speeds = slices.speeds(able, truth.queries)
            found = vectrial(
                "quick", *LIBRARIES, "--dataset", data.name, "--rows", count,
                "--minutes", minutes, "--out", given.out,
            )  # fmt: skip
            wrong, missed, pairs = _count_errors(found, speeds)
            name = f"quick, {count:,} rows of {data.name} in {minutes} min"
            bench.add(
                harness.figure(f"{name}: pairs in the wrong order", "", [wrong], 0),
                harness.figure(f"{name}: of {pairs} that differ by 20 %, missed", "", [missed], 0),
            )


def _count_errors(found: Sequence[Mapping[str, Any]], speeds: np.ndarray) -> tuple[int, int, int]:
    """Pairs that differ by 20 % or more: in the wrong order by the table, and not told apart."""
    said = {o["store"]: o["qps_at_recall"] for o in found if o["kind"] == "store"}
    apart = {
        frozenset((o["faster"], o["slower"])): o["told_apart"]
        for o in found
        if o["kind"] == "verdict"
    }
    wrong = missed = pairs = 0
    for one, other in itertools.combinations(range(len(LIBRARIES)), 2):
        middle, *_ = slices.ratio(speeds[:, one], speeds[:, other])
        faster, slower = (one, other) if middle > 1 else (other, one)
        names = LIBRARIES[faster], LIBRARIES[slower]
        print(f"  {names[0]} is {max(middle, 1 / middle):.2f} times {names[1]}: {apart}")
        if max(middle, 1 / middle) < 1.2:
            continue
        pairs += 1
        ends = [said.get(name) for name in names]
        wrong += any(end is None for end in ends) or ends[0]["median"] < ends[1]["median"]
        # A table judges neighbours; whoever lies between them tells the others apart.
        missed += not apart.get(frozenset(names), all(apart.values()))
    return wrong, missed, pairs


# -- forecast ----------------------------------------------------------------------------------


def forecast(given: argparse.Namespace, bench: harness.Bench) -> None:
    """Figures at two and four times the rows, beside their forecasts by the smaller sizes."""
    from vectrial.analysis.growth_curves import curves
    from vectrial.analysis.growths import outlooks
    from vectrial.analysis.run_data import load

    larger = [2 * SIZES[-1], 4 * SIZES[-1]]
    data = imported(larger[-1], 64)
    found = curves(load(run(given, growth(data.name, (*SIZES, *larger)))))
    value_at = {(c.build, c.quantity): dict(zip(c.sizes, c.values, strict=True)) for c in found}
    below = [curve.below(SIZES[-1] + 1) for curve in found]
    outside: dict[str, list[float]] = defaultdict(list)
    widths: dict[str, list[float]] = defaultdict(list)
    far = []
    for rows in larger:
        for one in outlooks(below, rows):
            value = value_at[one.curve.build, one.curve.quantity].get(rows)
            if value is None:
                continue
            metric = one.curve.quantity.metric
            outside[metric].append(not one.forecast.contains(value))
            widths[metric].append(one.forecast.high / one.forecast.low)
            if metric == "recall_mean":
                far.append(abs(value - one.forecast.value) > 0.01)
    goals = {"disk_bytes": 1.1, "rss_growth_bytes": 1.3, "ready_s": 3, "qps": 2, "latency_p99": 3}
    for metric, all_of_it in outside.items():
        name = f"forecast of {metric}: share of {len(all_of_it)} outside an 80 % interval"
        bench.add(harness.figure(name, "", [sum(all_of_it) / len(all_of_it)], 0.2))
        if metric in goals:
            name = f"forecast of {metric}: width of the interval"
            bench.add(harness.figure(name, "fold", widths[metric], goals[metric]))
    bench.add(harness.figure("recalls farther than 0.01", "", [sum(far) / len(far)], 0.1))


def run(given: argparse.Namespace, suite: str) -> Path:
    """The folder of a suite's run."""
    file = given.out / "suite.toml"
    file.write_text(suite)
    vectrial("run", file, "--out", given.out, "--no-report")
    return (given.out / "latest").resolve()


# -- fit ---------------------------------------------------------------------------------------


def fit(given: argparse.Namespace, bench: harness.Bench) -> None:
    """The least memory of a library, beside that of a plain control group."""
    for rows in (2_000, 2 * given.rows):
        data = imported(rows, 64)
        for library in ("hnswlib", "faiss", "sqlite-vec"):
            effort = [] if library == "sqlite-vec" else ["--param", "ef_construction=40"]
            (*_, found) = vectrial(
                "fit", library, "--dataset", data.name, "--rows", rows, *effort, "--rate", 50,
                "--p99", "500ms", "--load-factor", 6, "--warmup", 2, "--seconds", 3,
                "--confirm-seconds", 3, "--out", given.out,
            )  # fmt: skip
            with TemporaryDirectory() as place:
                files = [f"{place}/rows.npy", f"{place}/queries.npy"]
                np.save(files[0], data.rows[:rows])
                np.save(files[1], data.queries)
                command = [sys.executable, str(ALONE), library, *files, "40", "100", "200"]
                alone = group.least(command, 2 << 30)
            if alone is None or found["memory_bytes"] is None:
                print(f"fit {library} {rows:,}: {found['reason']}, alone {alone}", file=sys.stderr)
                continue
            answers = {"with our client": found["memory_bytes"]}
            answers |= {"as a process": found.get("process_bytes")}
            for of, value in answers.items():
                if value is not None:
                    name = f"fit {library}, {rows:,} rows, {of}: over the least alone"
                    print(f"{name}: {value / 1e6:.0f} and {alone / 1e6:.0f} MB", flush=True)
                    bench.add(harness.figure(name, "", [value / alone], 1.15))


# -- capacity ----------------------------------------------------------------------------------


@contextmanager
def redis() -> Iterator[tuple[int, dict[str, str]]]:
    """A Redis with the query engine: its port, and what lets Vectrial find it."""
    (facts,) = vectrial("up", "redis-search", "--detach")
    exports = dict(re.findall(r"export (\w+)=(.*)", facts["export"]))
    try:
        yield facts["ports"]["redis"], {name: value.strip("'") for name, value in exports.items()}
    finally:
        vectrial("down", "redis-search")


def capacity(given: argparse.Namespace, bench: harness.Bench) -> None:
    """The highest rate of a server, twice, beside that of a plain sender."""
    for data in (imported(given.rows, 64), words(given.rows)):
        truth = Neighbours.find(data, data.fresh[:500])
        with redis() as (port, env):
            answers = []
            for _ in range(2):
                found = vectrial(
                    "capacity", "redis-search", "--dataset", data.name, "--rows", given.rows,
                    "--p99", "20ms", "--recall", 0.95, "--out", given.out, env=env,
                )  # fmt: skip
                result = next(one for one in found if one["kind"] == "result")
                print(f"capacity: {result['text']}", flush=True)
                answers.append(result["confirmed"] or 0.0)
            password = next(
                (Path(v).read_text().strip() for k, v in env.items() if "PASS" in k), ""
            )
            sender.load(port, data, 16, 200, password)
            ef = sender.least_ef(port, truth, 0.95, password)
            commands = [sender.search_command(query, ef) for query in data.fresh]
            rate = sender.highest(port, commands, 20_000, answers[-1] or 500.0, password)
        name = f"capacity of redis-search, {data.name}"
        print(f"{name}: {answers} and {rate:.0f}/s at EF_RUNTIME = {ef}", flush=True)
        ratios = [max(rate / one, one / rate) for one in answers if one]
        apart = max(answers) / max(min(answers), 1e-9)
        bench.add(
            harness.figure(f"{name}: off a plain sender's rate", "fold", ratios, 1.07),
            harness.figure(f"{name}: two in a row apart", "fold", [apart], 1.15),
        )


# -- estimates ---------------------------------------------------------------------------------


def estimate(given: argparse.Namespace, bench: harness.Bench) -> None:
    """The time that suites take, over the time that was said."""
    for count in (1, 2, 4):
        data = imported(SIZES[-1], 64)
        file = given.out / "suite.toml"
        file.write_text(growth(data.name, SIZES[:count]))
        command = [*VECTRIAL, "run", str(file), "--dry-run"]
        env = {**os.environ, "COLUMNS": "300"}
        said = subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout
        (number, unit), *_ = re.findall(r"about ([\d,]+) (s|min)", said)
        seconds = float(number.replace(",", "")) * (60 if unit == "min" else 1)
        began = time.monotonic()
        run(given, file.read_text())
        ratio = (time.monotonic() - began) / seconds
        name = f"time of a suite of {count} sizes: off what was said"
        print(f"{name}: said {seconds:.0f} s, {ratio:.2f} of it taken", flush=True)
        bench.add(harness.figure(name, "fold", [max(ratio, 1 / ratio)], 1.33))


QUESTIONS: dict[str, Callable[[argparse.Namespace, harness.Bench], None]] = {
    "tune": tune,
    "quick": quick,
    "forecast": forecast,
    "fit": fit,
    "capacity": capacity,
    "estimate": estimate,
}


def main() -> int:
    """Ask the questions of the command line, and print a line for each figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("questions", nargs="*", choices=[[], *QUESTIONS])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--stores", nargs="+", default=list(LIBRARIES), choices=LIBRARIES)
    parser.add_argument("--load", type=int, default=0, help="so many busy processes beside it")
    parser.add_argument("--jsonl", type=Path, help="append one JSON object per figure to this file")
    given = parser.parse_args()
    bench = harness.Bench(given.jsonl)
    with busy(given.load), TemporaryDirectory() as place:
        given.out = Path(place)
        for name in given.questions or QUESTIONS:
            QUESTIONS[name](given, bench)
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
