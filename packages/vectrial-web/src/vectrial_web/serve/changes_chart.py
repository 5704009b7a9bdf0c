"""The chart of a comparison: the change of every cell with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vectrial.compare.document import figures, metric_name, place_text
from vectrial.compare.judge import Verdict
from vectrial.document.blocks import Figure
from vectrial.document.charts.theme import (
    chart_of,
    description,
    finish_chart,
    ink,
    legend,
    plot_width,
)
from vectrial.document.charts.vegalite import Settings, channel, layer
from vectrial.stats.verdict import VerdictKind
from vectrial.util import formatting

_INKS = {
    VerdictKind.WORSE: "wrong",
    VerdictKind.BETTER: "step1",
    VerdictKind.TIE: "muted",
    VerdictKind.UNDECIDED: "axis",
}
#: Changes are drawn between these ratios; the table has all.
_DRAWN = (0.1, 10.0)


def changes(name: str, title: str, verdicts: Sequence[Verdict]) -> Figure:
    """Figure of the ratio of B to A for every verdict, with its interval, and a line at no
    change."""
    rows = [_chart_row(verdict) for verdict in verdicts]
    kinds = [kind for kind in _INKS if any(row["kind"] == str(kind) for row in rows)]

    def spec(width: int, with_legend: bool) -> Mapping[str, Any]:
        scale = Settings(domain=[str(k) for k in kinds], range=[ink(_INKS[k]) for k in kinds])
        order = [row["what"] for row in rows]
        label = "(datum.value >= 1 ? '+' : '') + format((datum.value - 1) * 100, ',.3~r') + ' %'"
        ratio = channel(
            "ratio:Q", title="change from A to B", scale=Settings(type="log", nice=False),
            axis=Settings(labelExpr=label, tickCount=5 if width >= 480 else 3),
        )  # fmt: skip
        colour = channel("kind:N", scale=scale, legend=legend(True, plot_width(width), len(kinds)))
        base = chart_of(rows).encode(y=channel("what:N", title=None, sort=order), color=colour)
        none = chart_of([{"one": 1}]).mark("rule", color=ink("axis"), aria=False).encode(x="one:Q")
        chart = layer(
            none,
            base.mark("rule", strokeWidth=2, aria=False).encode(x=ratio, x2="high:Q").encode(
                x=channel("low:Q", scale=Settings(type="log", nice=False))
            ),
            base.mark("point", size=80, filled=True, opacity=1).encode(
                x=ratio, description="description:N"
            ),
        )  # fmt: skip
        return finish_chart(chart, plot_width(width), max(60, 24 * len(rows)))

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


def _chart_row(verdict: Verdict) -> dict[str, Any]:
    effect = verdict.effect
    assert effect is not None

    def within(ratio: float) -> float:
        return min(max(ratio, _DRAWN[0]), _DRAWN[1])

    a, b, change = figures(verdict)
    # What tells one from the next comes first: long names are cut at their end.
    what = " · ".join([metric_name(verdict), *reversed(place_text(verdict).split(" · "))])
    ends = (effect.low, effect.high)
    return {
        "what": what, "kind": str(verdict.kind), "ratio": within(effect.ratio),
        "low": within(effect.low), "high": within(effect.high),
        "clipped": any(within(end) != end for end in ends),
        "description": description((what, ""), ("A", a), ("B", b), ("change", change),
                                 ("verdict", str(verdict.kind)), ("", verdict.reason)),
    }  # fmt: skip
