"""The answer of `vectrial quick`: two tables, what they tell apart, and how to go on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding

from vectrial.analysis.analysis import LOAD, Sweep, sweeps
from vectrial.analysis.run_data import Point, RunData
from vectrial.cli.output import plain_table, say, stdout_console
from vectrial.compare.ranking import Ranking, sentences
from vectrial.model.phase import Role
from vectrial.model.trial import Series
from vectrial.run.prepare import RESOLVED
from vectrial.run.quick import Skipped
from vectrial.run.runner import NO_TIME
from vectrial.util import formatting

#: Parameters of a point that are said of the whole table.
_COMMON = frozenset({*LOAD, "returns", "durability"})
_SEARCH = ("qps", "recall_mean", "latency_p50", "latency_p99", "errors", "count")
_LOADED = ("ready_s", "rss_growth_bytes", "disk_bytes")
_NUMBERS = ("ready after", "memory", "disk")


@dataclass(frozen=True)
class QuickQuestion:
    """The load and the target recall."""

    recall: float
    clients: int
    k: int

    def __str__(self) -> str:
        by = formatting.plural(self.clients, "client")
        return f"recall ≥ {self.recall:g}, k = {self.k:,}, {by}"


def print_answer(
    run: RunData, ranking: Ranking, question: QuickQuestion, skipped: Sequence[Skipped]
) -> None:
    """Print the tables and the sentences on stdout."""
    console = stdout_console()
    sweep = _sweep(run, question)
    best = _best(run, sweep, question)
    _print_searches(console, run, sweep, best, question)
    _print_loads(console, run, best)
    if best:
        console.print(f"\nQPS at exactly recall {question.recall:g}, read off each repeat's curve:")
        judged = {one.name for one in ranking.stores}
        names = [run.labels[series] for series in best]
        _print_list(console, sentences(ranking, [name for name in names if name not in judged]))
    lacking = [*_missing(run, sweep, best, question), *_lines(skipped)]
    if lacking:
        console.print("\nNot in the table:" if best else "\nNothing was measured:")
        _print_list(console, lacking)


def print_next(folder: Path, run: RunData, ranking: Ranking) -> None:
    """Print the run folder, its suite, and commands for the next steps on stdout."""
    console = stdout_console()
    at = shlex.quote(str(_short(folder)))
    names = [one.name for one in ranking.stores[:2]]
    stores = " ".join(f"--store {shlex.quote(name)}" for name in names)
    say(console, f"\nrun: {at}\nsuite: {at}/{RESOLVED}")
    if any(trial.reason == NO_TIME for trial in run.trials):
        say(console, f"  vectrial run --resume {at}    # what there was no time for")
    say(console, f"  vectrial report {at}")
    if len(names) == 2:
        say(console, f"  vectrial compare {at} {stores}")
    say(console, f"  cp {at}/{RESOLVED} mine.toml    # edit it, then: vectrial run mine.toml")


def objects(
    run: RunData, ranking: Ranking, question: QuickQuestion, skipped: Sequence[Skipped]
) -> Iterator[dict[str, Any]]:
    """One JSON object per store, then one per pair of stores, then one per skipped store."""
    sweep = _sweep(run, question)
    best = _best(run, sweep, question)
    for series, name in run.labels.items():
        point = best.get(series)
        yield {
            "kind": "store",
            "store": name,
            "index": series.index_kind,
            "lane": series.lane,
            "recall_target": question.recall,
            "clients": question.clients,
            "k": question.k,
            "search": None if point is None else dict(_setting(point)),
            "repeats": 0 if point is None else point.repeats,
            **{metric: _spread(point, metric) for metric in _SEARCH},
            **{metric: _spread(_loaded(run, series, metric), metric) for metric in _LOADED},
            "reason": None if point is not None else _reason(run, sweep, series, question),
        }
    for (i, j), verdict in ranking.verdicts.items():
        effect = verdict.effect
        yield {
            "kind": "verdict",
            "faster": ranking.stores[i].name,
            "slower": ranking.stores[j].name,
            "recall": ranking.recall,
            "told_apart": verdict.kind in ("better", "worse"),
            "verdict": str(verdict.kind),
            "ratio": None if effect is None else effect.ratio,
            "low": None if effect is None else effect.low,
            "high": None if effect is None else effect.high,
            "reason": verdict.reason,
        }
    for one in skipped:
        yield {"kind": "skipped", "store": one.store, "reason": one.reason}


def _sweep(run: RunData, question: QuickQuestion) -> Sweep | None:
    return next(iter(sweeps(run, question.clients)), None)


def _best(run: RunData, sweep: Sweep | None, question: QuickQuestion) -> dict[Series, Point]:
    """The fastest measured point of each series that reaches the recall, the fastest first."""
    if sweep is None:
        return {}
    found = {series: sweep.best(series, question.recall) for series in run.labels}
    able = [(series, point) for series, point in found.items() if point is not None]
    return dict(sorted(able, key=lambda item: -(item[1].value("qps") or 0)))


def _setting(point: Point) -> Mapping[str, Any]:
    """Search parameters of a point."""
    return {name: value for name, value in point.params.items() if name not in _COMMON}


def _loaded(run: RunData, series: Series, metric: str) -> Point | None:
    """The load or size point that has the metric."""
    points = [*run.in_role(Role.LOAD), *run.in_role(Role.SIZE)]
    own = (p for p in points if p.series == series and p.state == "ok")
    return next((p for p in own if p.value(metric) is not None), None)


def _spread(point: Point | None, metric: str) -> dict[str, float] | None:
    spread = None if point is None else point.spread(metric)
    if spread is None:
        return None
    return {"median": spread.median, "low": spread.low, "high": spread.high}


# -- on a terminal -----------------------------------------------------------------------------


def _print_searches(
    console: Console,
    run: RunData,
    sweep: Sweep | None,
    best: Mapping[Series, Point],
    question: QuickQuestion,
) -> None:
    if sweep is None or not best:
        return
    faultless = all(point.value("errors") == 0 for point in best.values())
    head = f"{sweep.facet.dataset}, {formatting.rows(sweep.facet.rows)}: {question}"
    console.print(f"\n{head}{', no errors' if faultless else ''}")
    columns = ("setting", "QPS", "range", "recall", "p99", *["errors"] * (not faultless), "repeats")
    table = plain_table("store", *columns, right=columns[1:], whole=columns)
    for series, point in best.items():
        spread = point.spread("qps")
        setting = _setting(point)
        table.add_row(
            run.labels[series],
            formatting.params(setting) if setting else "exact",
            _text(point, "qps", "1"),
            "" if spread is None else formatting.spread(spread, "1"),
            formatting.recall(point.value("recall_mean") or 0),
            _text(point, "latency_p99", "us"),
            *[_text(point, "errors", "1")] * (not faultless),
            str(point.repeats),
        )
    console.print(table)


def _print_loads(console: Console, run: RunData, best: Mapping[Series, Point]) -> None:
    rows = [
        (
            run.labels[series],
            _text(_loaded(run, series, "ready_s"), "ready_s", "s"),
            _text(_loaded(run, series, "rss_growth_bytes"), "rss_growth_bytes", "B"),
            _text(_loaded(run, series, "disk_bytes"), "disk_bytes", "B"),
        )
        for series in best
    ]
    if not rows:
        return
    console.print("\nLoading until it is ready to search, memory gained, bytes on disk")
    table = plain_table("store", "ready after", "memory", "disk", right=_NUMBERS, whole=_NUMBERS)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _text(point: Point | None, metric: str, unit: str) -> str:
    value = None if point is None else point.value(metric)
    return formatting.NOTHING if value is None else formatting.measure(value, unit)


def _missing(
    run: RunData, sweep: Sweep | None, best: Mapping[Series, Point], question: QuickQuestion
) -> list[str]:
    """A line for each store without a row."""
    return [
        f"{name}: {_reason(run, sweep, series, question)}"
        for series, name in run.labels.items()
        if series not in best
    ]


def _reason(run: RunData, sweep: Sweep | None, series: Series, question: QuickQuestion) -> str:
    """Reason why a series has no point that reaches the recall."""
    points = [] if sweep is None else sweep.ranked(series)
    if points:
        most = max(point.value("recall_mean") or 0 for point in points)
        return f"recall {question.recall:g} is not reached: at most {formatting.recall(most)}"
    unranked = [] if sweep is None else sweep.of(series, None)
    own = [trial for trial in run.trials if trial.series == series]
    wrong = [why for trial in own if (why := run.why_wrong(trial))]
    if wrong:
        return f"wrong: it failed the gate: {wrong[0]}"
    if unranked:
        return unranked[0].why_unranked
    reasons = dict.fromkeys(trial.reason for trial in own if trial.reason)
    return "; ".join(map(str, reasons)) or "it has no search"


def _lines(skipped: Sequence[Skipped]) -> list[str]:
    """A line for each reason, with the stores that share it."""
    shared: dict[str, list[str]] = {}
    for one in skipped:
        shared.setdefault(one.reason, []).append(one.store)
    return [f"{', '.join(names)}: {reason}" for reason, names in shared.items()]


def _print_list(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(Padding(line, (0, 0, 0, 2), expand=False))


def _short(folder: Path) -> Path:
    """The folder relative to the working directory, if it lies below it."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder
