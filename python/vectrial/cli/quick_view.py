"""The answer of `vectrial quick`: two tables, what they tell apart, and how to go on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding

from vectrial.analysis.run_data import Point
from vectrial.cli.output import Format, plain_table, print_json, say, stdout_console
from vectrial.compare.ranking import sentences
from vectrial.questions.contenders import SkippedStore
from vectrial.questions.quick import QuickAnswer, setting
from vectrial.run.prepare import RESOLVED
from vectrial.run.runner import NO_TIME
from vectrial.stats.intervals import Spread
from vectrial.util import formatting

_SEARCH = ("qps", "recall_mean", "latency_p50", "latency_p99", "errors", "count")
_LOADED = ("ready_s", "rss_growth_bytes", "disk_bytes")
_NUMBERS = ("ready after", "memory", "disk")


def print_answer(answer: QuickAnswer, form: Format) -> None:
    """Print the tables and the sentences, or the objects, on stdout."""
    if form is Format.JSONL:
        print_json(objects(answer))
        return
    console, run, recall = stdout_console(), answer.run, answer.question.recall
    _print_searches(console, answer)
    _print_loads(console, answer)
    if answer.best:
        console.print(f"\nQPS at exactly recall {recall:g}, read off each repeat's curve:")
        judged = {one.name for one in answer.ranking.stores}
        names = [run.labels[series] for series in answer.best]
        unjudged = [name for name in names if name not in judged]
        _print_list(console, sentences(answer.ranking, unjudged))
    missing = [series for series in run.labels if series not in answer.best]
    lacking = [f"{run.labels[series]}: {answer.reason(series)}" for series in missing]
    lacking += _lines(answer.skipped)
    if lacking:
        console.print("\nNot in the table:" if answer.best else "\nNothing was measured:")
        _print_list(console, lacking)


def print_next(answer: QuickAnswer, form: Format) -> None:
    """Print the run folder, and for people its suite and commands for the next steps, on stdout."""
    if form is Format.JSONL:
        print_json([{"kind": "run", "folder": str(answer.folder)}])
        return
    console = stdout_console()
    at = shlex.quote(str(_short(answer.folder)))
    names = [one.name for one in answer.ranking.stores[:2]]
    stores = " ".join(f"--store {shlex.quote(name)}" for name in names)
    say(console, f"\nrun: {at}\nsuite: {at}/{RESOLVED}")
    if any(trial.reason == NO_TIME for trial in answer.run.trials):
        say(console, f"  vectrial run --resume {at}    # what there was no time for")
    say(console, f"  vectrial report {at}")
    if len(names) == 2:
        say(console, f"  vectrial compare {at} {stores}")
    say(console, f"  cp {at}/{RESOLVED} mine.toml    # edit it, then: vectrial run mine.toml")


def objects(answer: QuickAnswer) -> Iterator[dict[str, Any]]:
    """One JSON object per store, then one per pair of stores, then one per skipped store."""
    asked, ranking = answer.question, answer.ranking
    for series, name in answer.run.labels.items():
        point = answer.best.get(series)
        yield {
            "kind": "store",
            "store": name,
            "index": series.index_kind,
            "lane": series.lane,
            "recall_target": asked.recall,
            "clients": asked.clients,
            "k": asked.k,
            "search": None if point is None else setting(point),
            "repeats": 0 if point is None else point.repeats,
            "qps_at_recall": _ends(answer.at_recall(series)),
            **{metric: _spread(point, metric) for metric in _SEARCH},
            **{metric: _spread(answer.load(series, metric), metric) for metric in _LOADED},
            "reason": None if point is not None else answer.reason(series),
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
    for one in answer.skipped:
        yield {"kind": "skipped", "store": one.store, "reason": one.reason}


def _spread(point: Point | None, metric: str) -> dict[str, float] | None:
    return _ends(None if point is None else point.spread(metric))


def _ends(spread: Spread | None) -> dict[str, float] | None:
    if spread is None:
        return None
    return {"median": spread.median, "low": spread.low, "high": spread.high}


# -- on a terminal -----------------------------------------------------------------------------


def _print_searches(console: Console, answer: QuickAnswer) -> None:
    sweep, best = answer.sweep, answer.best
    if sweep is None or not best:
        return
    faultless = all(point.value("errors") == 0 for point in best.values())
    head = f"{sweep.facet.dataset}, {formatting.rows(sweep.facet.rows)}: {answer.question}"
    console.print(f"\n{head}{', no errors' if faultless else ''}")
    at_recall = f"QPS at {answer.question.recall:g}"
    measured = ("QPS", "recall", "p99", *["errors"] * (not faultless))
    columns = (at_recall, "range", "repeats", "measured setting", *measured)
    right = (at_recall, "range", "repeats", *measured)
    table = plain_table("store", *columns, right=right, whole=columns)
    for series, point in best.items():
        spread = answer.at_recall(series)
        params = setting(point)
        table.add_row(
            answer.run.labels[series],
            formatting.NOTHING if spread is None else formatting.measure(spread.median, "1"),
            "" if spread is None else formatting.spread(spread, "1"),
            str(point.repeats),
            formatting.params(params) if params else "exact",
            _text(point, "qps", "1"),
            formatting.recall(point.value("recall_mean") or 0),
            _text(point, "latency_p99", "us"),
            *[_text(point, "errors", "1")] * (not faultless),
        )
    console.print(table)


def _print_loads(console: Console, answer: QuickAnswer) -> None:
    rows = [
        (
            answer.run.labels[series],
            _text(answer.load(series, "ready_s"), "ready_s", "s"),
            _text(answer.load(series, "rss_growth_bytes"), "rss_growth_bytes", "B"),
            _text(answer.load(series, "disk_bytes"), "disk_bytes", "B"),
        )
        for series in answer.best
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


def _lines(skipped: Sequence[SkippedStore]) -> list[str]:
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
