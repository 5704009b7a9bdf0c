"""The chart of a ranking: each answer with its interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vectrial.document.blocks import Figure
from vectrial.document.charts.theme import beside_names, chart_of, described, finished, ink
from vectrial.document.charts.vegalite import Settings, channel, layer
from vectrial.experiments.registry import all_metrics
from vectrial.stats.intervals import spread_of
from vectrial.util import formatting
from vectrial_web.site.ranking import TermRanking

#: Fewer answers need no picture; more do not fit one.
_LEAST, _MOST = 3, 24


def ranking_figure(ranking: TermRanking, name: str) -> Figure | None:
    """Figure of a sheet's ranked answers with their intervals; None if there are few, or if they
    are not values of one metric."""
    question = ranking.question
    ranked = [p for p in ranking.places if p.rank is not None and p.entry.values]
    if question.among or question.priced or not _LEAST <= len(ranked) <= _MOST:
        return None
    metric = all_metrics()[question.metric]
    rows: list[dict[str, Any]] = []
    for place in ranked:
        spread = spread_of(list(place.entry.values.values()))
        rows.append(
            {
                "what": f"{place.rank}{' =' if place.level else ''}  {place.entry.label}",
                "value": spread.median,
                "low": spread.low,
                "high": spread.high,
                "description": described(
                    (place.entry.label, ""),
                    ("rank", str(place.rank)),
                    ("QPS", formatting.number(spread.median)),
                    ("from", formatting.number(spread.low)),
                    ("to", formatting.number(spread.high)),
                    ("undecided or level with", ", ".join(place.level)),
                ),
            }
        )

    def spec(width: int, wanted: bool) -> Mapping[str, Any]:
        scale = Settings(type="log", nice=False, padding=16)
        base = chart_of(rows).encode(
            y=channel("what:N", title=None, sort=[row["what"] for row in rows])
        )
        axis = Settings(format="~s", tickCount=5 if width >= 480 else 3)
        chart = layer(
            base.mark("rule", strokeWidth=2, color=ink("step2"), aria=False).encode(
                x=channel(
                    "low:Q", scale=scale, title=f"{metric.title or metric.name} (log)", axis=axis
                ),
                x2="high:Q",
            ),
            base.mark("point", size=80, filled=True, opacity=1, color=ink("step1")).encode(
                x=channel("value:Q", scale=scale), description="description:N"
            ),
        )
        return finished(chart, beside_names(width), max(60, 26 * len(rows)))

    return Figure(
        f"figure-{name}",
        f"{question.title}: {ranking.like.title}",
        "Median and spread of the repeats of each answer. The number before a name is its rank; ="
        " marks a shared rank.",
        f"{question.title} on {ranking.like.title}: "
        + "; ".join(f"rank {p.rank}: {p.entry.label}" for p in ranked),
        spec,
    )
