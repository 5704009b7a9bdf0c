"""A comparison as a table for the terminal, JSON lines, and a Markdown comment."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from vectrial.compare.build import ALIASES, Comparison
from vectrial.compare.cells import load_of
from vectrial.compare.groups import JUDGED
from vectrial.compare.judge import Kind, Verdict
from vectrial.document.blocks import value_cell
from vectrial.stats.effects import ALPHA, POWER
from vectrial.stats.intervals import Spread
from vectrial.util import formatting

_STYLES = {
    Kind.WORSE: "bold red",
    Kind.BETTER: "bold green",
    Kind.TIE: "",
    Kind.NOT_COMPARABLE: "dim",
}
#: Characters of a reason in a table.
_LONGEST = 240
_HEADS = ("", "metric", "A", "B", "change", "verdict")
_MARKS = {Kind.WORSE: "🔴", Kind.BETTER: "🟢", Kind.TIE: "⚪", Kind.NOT_COMPARABLE: "➖"}


def place(verdict: Verdict) -> str:
    """Experiment, phase where it says more, load, and recall or setting."""
    cell = verdict.cell
    name = cell.experiment
    if cell.phase and cell.phase not in ("search", cell.experiment):
        name = f"{name} {cell.phase}"
    return " · ".join(part for part in (name, load_of(cell.terms), cell.at) if part)


def sheet(verdict: Verdict) -> str:
    """What the cells of one table have in common."""
    cell = verdict.cell
    terms = cell.terms
    parts = [
        cell.subject,
        str(terms.get("dataset", "")),
        formatting.rows(int(terms.get("rows", 0))),
    ]
    parts += [f"k = {terms['k']}"] if "k" in terms else []
    return " · ".join([*parts, str(terms.get("lane", ""))])


def figures(verdict: Verdict) -> tuple[str, str, str]:
    """A, B and the change, as read."""
    a, b = (_figure(verdict, spread) for spread in (verdict.spread_a, verdict.spread_b))
    return a, b, _change(verdict)


def _figure(verdict: Verdict, spread: Spread | None) -> str:
    if spread is None:
        return formatting.NOTHING
    metric = verdict.cell.metric
    assert metric is not None
    judged = formatting.is_recall(metric.name) or metric.name in JUDGED  # never 1 for what is not
    cell = value_cell(spread, metric.unit, show=formatting.recall if judged else None)
    return f"{cell.text}{f' ({cell.detail})' if cell.detail else ''}"


def _change(verdict: Verdict) -> str:
    effect = verdict.effect
    if effect is None:
        return formatting.NOTHING
    low, high = (_percent(x - 1) for x in (effect.low, effect.high))
    around = "" if low == high else f" ({low} … {high})"
    return f"{_percent(effect.ratio - 1)}{around}"


def _percent(share: float) -> str:
    if share > 10:
        return "> +1000 %"
    return f"{share * 100:+.1f} %"


def legend(comparison: Comparison) -> str:
    """How the verdicts are to be read."""
    return (
        f"B against A. Medians of the repeats with 95 % intervals; change: ratio of means with its"
        f" 95 % interval. worse, better: by {comparison.threshold * 100:.3g} % of A or more, and"
        f" shown by the repeats (t of logarithms, Holm over all cells: a false alarm in at most"
        f" {ALPHA * 100:.0f} % of comparisons)."
    )


def table(comparison: Comparison) -> RenderableType:
    """For a terminal: what was compared, then what was not and why."""
    parts: list[RenderableType] = [
        Text(f"A {comparison.a.name}   B {comparison.b.name}", style="bold")
    ]
    sheets: dict[str, list[Verdict]] = {}
    for verdict in comparison.verdicts:
        sheets.setdefault(sheet(verdict), []).append(verdict)
    for title, verdicts in sheets.items():
        parts += [Text(), Text(title, style="bold")]
        compared = [v for v in verdicts if v.kind is not Kind.NOT_COMPARABLE]
        if compared:
            parts.append(_rows(compared))
        for verdict in verdicts:
            if verdict.kind is Kind.NOT_COMPARABLE:
                what = " · ".join(filter(None, (place(verdict), short(verdict))))
                line = f"not comparable: {what}: {_clipped(verdict.reason)}"
                parts.append(Text(line, style=_STYLES[verdict.kind]))
    parts += [Text(), Text(comparison.headline, style="bold")]
    said = (*comparison.alone, *comparison.caveats)
    parts += [Text(f"! {_clipped(one)}", style="yellow") for one in said]
    parts.append(Text(legend(comparison), style="dim"))
    return Group(*parts)


def _rows(verdicts: list[Verdict]) -> Table:
    made = Table(box=None)
    for head in _HEADS:
        right = head in ("A", "B", "change")
        made.add_column(head, justify="right" if right else "left", no_wrap=right)
    for verdict in verdicts:
        a, b, change = figures(verdict)
        said = f"{verdict.kind}{f': {verdict.reason}' if verdict.reason else ''}"
        cells = (place(verdict), short(verdict), a, b, change, said)
        made.add_row(*map(escape, cells), style=_STYLES[verdict.kind])
    return made


def short(verdict: Verdict) -> str:
    """The metric by the name it is asked for; empty where the reason holds for all."""
    metric = verdict.cell.metric
    names = {name: alias for alias, name in ALIASES.items()}
    return "" if metric is None else names.get(metric.name, metric.name)


def _clipped(told: str) -> str:
    """What a store said may be long; JSON lines have it whole."""
    flat = " ".join(told.split())
    return flat if len(flat) <= _LONGEST else f"{flat[: _LONGEST - 1]}…"


def markdown(comparison: Comparison) -> str:
    """A comment for a pull request: what changed first, the rest folded away."""
    worse, better = comparison.of(Kind.WORSE), comparison.of(Kind.BETTER)
    lines = [f"### {_mark(comparison)} {comparison.headline}", ""]
    lines += [f"{_md(comparison.b.name)} (B) against {_md(comparison.a.name)} (A).", ""]
    if worse or better:
        lines += [*_md_table([*worse, *better]), ""]
    rest = [*comparison.of(Kind.TIE), *comparison.of(Kind.NOT_COMPARABLE)]
    if rest:
        lines += [f"<details><summary>{len(rest)} without a difference</summary>", ""]
        lines += [*_md_table(rest), "", "</details>", ""]
    said = [*comparison.alone, *comparison.caveats]
    if said:
        lines += [f"<details><summary>{len(said)} caveats</summary>", ""]
        lines += [*(f"- {_md(one)}" for one in said), "", "</details>", ""]
    return "\n".join([*lines, legend(comparison), ""])


def _mark(comparison: Comparison) -> str:
    for kind in (Kind.WORSE, Kind.BETTER, Kind.TIE):
        if comparison.of(kind):
            return _MARKS[kind]
    return _MARKS[Kind.NOT_COMPARABLE]


def _md_table(verdicts: list[Verdict]) -> list[str]:
    rows = [
        "| what | metric | A | B | change | verdict |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    for verdict in verdicts:
        metric = short(verdict) or formatting.NOTHING
        said = f"{_MARKS[verdict.kind]} {verdict.kind}"
        said += f": {_clipped(verdict.reason)}" if verdict.reason else ""
        what = f"{sheet(verdict)} · {place(verdict)}"
        cells = (_md(one) for one in (what, metric, *figures(verdict), said))
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _md(told: str) -> str:
    """Text that is text in Markdown: what a store said may hold anything."""
    flat = " ".join(told.split()).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{c}" if c in "\\`*_[]|#~" else c for c in flat)


def objects(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """One object a verdict, then one for each caveat; docs/compare.md explains the keys."""
    for verdict in comparison.verdicts:
        cell, effect = verdict.cell, verdict.effect
        yield {
            "kind": "verdict",
            "verdict": str(verdict.kind),
            "reason": verdict.reason or None,
            "subject": cell.subject,
            "dataset": cell.terms.get("dataset"),
            "rows": cell.terms.get("rows"),
            "experiment": cell.experiment,
            "phase": cell.phase or None,
            "terms": dict(cell.terms),
            "side": cell.side or None,
            "at": cell.at or None,
            "metric": cell.metric.name if cell.metric else None,
            "unit": cell.metric.unit if cell.metric else None,
            "a": _side(verdict.spread_a, cell.a),
            "b": _side(verdict.spread_b, cell.b),
            "change": verdict.change,
            "change_low": None if effect is None else effect.low - 1,
            "change_high": None if effect is None else effect.high - 1,
            "p": None if effect is None else effect.p,
            "p_adjusted": verdict.p_adjusted,
            "paired": None if effect is None else effect.paired,
            "at_pace": None if effect is None else effect.at_pace,
            "change_measured": verdict.change if verdict.measured is None else verdict.measured,
            "minimum_effect": _finite(verdict.minimum),
            "power": POWER,
            "threshold": comparison.threshold,
        }
    for said in comparison.alone:
        yield {"kind": "alone", "reason": said}
    for said in comparison.caveats:
        yield {"kind": "caveat", "reason": said}


def _side(spread: Spread | None, values: Any) -> dict[str, Any] | None:
    if spread is None:
        return None
    return {
        "median": spread.median,
        "low": spread.low,
        "high": spread.high,
        "repeats": {str(repeat): values[repeat] for repeat in sorted(values)},
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
