"""Two runs, or two stores, side by side as a document: `vectrial compare` as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import altair as alt

from vectrial.compare import write
from vectrial.compare.build import Comparison
from vectrial.compare.judge import Kind, Verdict
from vectrial.compare.sides import Side
from vectrial.document.blocks import (
    Answer,
    Block,
    Cell,
    Column,
    Figure,
    Report,
    Row,
    Section,
    Source,
    Table,
    Text,
    Tone,
    plain,
    value_cell,
)
from vectrial.document.charts.theme import beside_names, chart_of, described, finished, ink, legend
from vectrial.stats.intervals import Spread
from vectrial.util import formatting

_TONES: Mapping[Kind, Tone] = {Kind.WORSE: "wrong", Kind.NOT_COMPARABLE: "absent"}
_INKS = {Kind.WORSE: "wrong", Kind.BETTER: "step1", Kind.TIE: "muted"}
#: Changes are drawn between these ratios; the table has all.
_DRAWN = (0.1, 10.0)
_COLUMNS = (
    Column("what", "What", numeric=False),
    Column("metric", "Metric", numeric=False),
    Column("a", "A", spread=True),
    Column("b", "B", spread=True),
    Column("change", "Change", "1", spread=True),
    Column("verdict", "Verdict", numeric=False),
    Column("minimum", "Least that would be seen", "1"),
)


def comparison_report(comparison: Comparison) -> Report:
    """The document: the verdicts counted, drawn, in tables, and what was not compared and why."""
    sheets: dict[str, list[Verdict]] = {}
    for verdict in comparison.verdicts:
        if verdict.kind is not Kind.NOT_COMPARABLE:
            sheets.setdefault(write.sheet(verdict), []).append(verdict)
    blocks: list[Block] = []
    for number, (title, verdicts) in enumerate(sheets.items(), 1):
        blocks.append(_changes(f"changes-{number}", title, verdicts))
        blocks.append(_table(f"verdicts-{number}", f"{title}: the figures", verdicts, comparison))
    apart = comparison.of(Kind.NOT_COMPARABLE)
    notes = (*comparison.alone, *comparison.caveats)
    sections = [
        Section("verdicts", "Verdicts", write.legend(comparison), tuple(blocks)),
        Section("apart", "Not compared", "What has no counterpart on equal terms, or cannot be"
                " trusted, and why.", (_reasons(apart),)) if apart else None,
        Section("caveats", "To be known", "", (Text(notes, bullets=True),)) if notes else None,
    ]  # fmt: skip
    return Report(
        title="B against A",
        about="",
        meta=(
            ("A", _named(comparison.a)),
            ("B", _named(comparison.b)),
            ("In all", comparison.headline),
            ("Threshold", f"{comparison.threshold * 100:.3g} %"),
        ),
        warnings=(),
        answers=(
            ("In short", tuple(_card(comparison, kind) for kind in Kind if comparison.of(kind))),
        ),
        sections=tuple(s for s in sections if s is not None and s.blocks),
    )


def _named(side: Side) -> str:
    return f"{side.name} ({side.run.run['suite_name']})"


def _card(comparison: Comparison, kind: Kind) -> Answer:
    found = comparison.of(kind)
    return Answer(
        question=str(kind).capitalize(),
        answer=str(len(found)),
        figure=f"of {formatting.plural(len(comparison.verdicts), 'cell')}",
        bound=_first(found),
    )


def _first(found: Sequence[Verdict]) -> str:
    """The metrics of some verdicts, or the commonest reasons that there is none."""
    reasons = list(dict.fromkeys(write.short(v) or v.reason for v in found))
    more = f" and {len(reasons) - 3} more" if len(reasons) > 3 else ""
    return "; ".join(_clipped(one) for one in reasons[:3]) + more


def _clipped(said: str) -> str:
    return said if len(said) <= 90 else f"{said[:89]}…"


def _table(name: str, title: str, verdicts: Sequence[Verdict], comparison: Comparison) -> Table:
    rows = tuple(_row(verdict, comparison) for verdict in verdicts)
    return Table(name, title, _COLUMNS, rows)


def _row(verdict: Verdict, comparison: Comparison) -> Row:
    effect, unit = verdict.effect, verdict.cell.metric.unit if verdict.cell.metric else "1"
    shown = write.figures(verdict)[2]
    change = (
        Cell(formatting.NOTHING, tone="absent")
        if effect is None
        else Cell(
            shown.partition(" (")[0], effect.ratio - 1, shown.partition(" (")[2].rstrip(")"),
            low=effect.low - 1, high=effect.high - 1,
        )
    )  # fmt: skip
    least = verdict.minimum
    tone = _TONES.get(verdict.kind, "ok")
    return Row(
        (
            plain(write.place(verdict)),
            plain(write.short(verdict)),
            _value(verdict, verdict.spread_a, unit, 0),
            _value(verdict, verdict.spread_b, unit, 1),
            change,
            Cell(str(verdict.kind), str(verdict.kind), verdict.reason, tone=tone),
            Cell(formatting.NOTHING, tone="absent")
            if least is None
            else plain(least, f"{least * 100:.3g} %" if least < 10 else "> 1000 %"),
        )
    )


def _value(verdict: Verdict, spread: Spread | None, unit: str, side: int) -> Cell:
    if spread is None:
        return Cell(formatting.NOTHING, tone="absent")
    found = verdict.cell
    assert found.metric is not None
    phases, values = ((found.phases_a, found.a), (found.phases_b, found.b))[side]
    # Of one phase a repeat nothing was read off: the values are those of the phases.
    recall = found.recall if len(phases) > len(values) else None
    show = formatting.recall if formatting.is_recall(found.metric.name) else None
    source = Source(phases, found.metric.name, recall, side=side)
    return replace(value_cell(spread, unit, show=show), source=source)


def _reasons(verdicts: Sequence[Verdict]) -> Table:
    columns = (
        Column("subject", "Of what", numeric=False),
        Column("what", "What", numeric=False),
        Column("metric", "Metric", numeric=False),
        Column("reason", "Why not", numeric=False),
    )
    rows = tuple(
        Row((plain(write.sheet(v)), plain(write.place(v)), plain(write.short(v) or "all"),
             plain(v.reason)))
        for v in verdicts
    )  # fmt: skip
    return Table("not-compared", formatting.plural(len(rows), "cell"), columns, rows)


def _changes(name: str, title: str, verdicts: Sequence[Verdict]) -> Figure:
    """Every change with its interval, about no change."""
    rows = [_drawn(verdict) for verdict in verdicts]
    kinds = [kind for kind in _INKS if any(row["kind"] == str(kind) for row in rows)]

    def spec(width: int, wanted: bool) -> Mapping[str, Any]:
        scale = alt.Scale(domain=[str(k) for k in kinds], range=[ink(_INKS[k]) for k in kinds])
        order = [row["what"] for row in rows]
        label = "(datum.value >= 1 ? '+' : '') + format((datum.value - 1) * 100, ',.3~r') + ' %'"
        ratio = alt.X(
            "ratio:Q", title="change from A to B", scale=alt.Scale(type="log", nice=False),
            axis=alt.Axis(labelExpr=label, tickCount=5 if width >= 480 else 3),
        )  # fmt: skip
        colour = alt.Color(
            "kind:N", scale=scale, legend=legend(True, beside_names(width), len(kinds))
        )
        base = chart_of(rows).encode(y=alt.Y("what:N", title=None, sort=order), color=colour)
        none = chart_of([{"one": 1}]).mark_rule(color=ink("axis"), aria=False).encode(x="one:Q")
        chart = alt.layer(
            none,
            base.mark_rule(strokeWidth=2, aria=False).encode(x=ratio, x2="high:Q").encode(
                x=alt.X("low:Q", scale=alt.Scale(type="log", nice=False))
            ),
            base.mark_point(size=80, filled=True, opacity=1).encode(
                x=ratio, description="description:N"
            ),
        )  # fmt: skip
        return finished(chart, beside_names(width), max(60, 24 * len(rows)))

    clipped = any(row["clipped"] for row in rows)
    return Figure(
        name=name,
        title=title,
        caption="Ratio of B to A at each cell, with its 95 % interval. What is better depends on"
        " the metric: the colour says it.",
        alt=f"Changes of {formatting.plural(len(rows), 'cell')} from A to B with intervals:"
        f" {title}",
        spec=spec,
        notes=("Drawn between a tenth and ten times; the table has all.",) if clipped else (),
    )


def _drawn(verdict: Verdict) -> dict[str, Any]:
    effect = verdict.effect
    assert effect is not None

    def within(ratio: float) -> float:
        return min(max(ratio, _DRAWN[0]), _DRAWN[1])

    a, b, change = write.figures(verdict)
    # What tells one from the next comes first: long names are cut at their end.
    what = " · ".join([write.short(verdict), *reversed(write.place(verdict).split(" · "))])
    ends = (effect.low, effect.high)
    return {
        "what": what, "kind": str(verdict.kind), "ratio": within(effect.ratio),
        "low": within(effect.low), "high": within(effect.high),
        "clipped": any(within(end) != end for end in ends),
        "description": described((what, ""), ("A", a), ("B", b), ("change", change),
                                 ("verdict", str(verdict.kind)), ("", verdict.reason)),
    }  # fmt: skip
