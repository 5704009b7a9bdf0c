"""Charts of stores that took turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vectrial.analysis.turns import Running
from vectrial.document.charts.theme import Looks, chart_of, described, finished, legend
from vectrial.document.charts.vegalite import Settings, channel, layer
from vectrial.model.trial import Series
from vectrial.util import formatting


def ratios(
    running: Mapping[Series, Sequence[Running]], against: str, looks: Looks
) -> Callable[[int, bool], dict[str, Any]]:
    """The ratio of each series' QPS to that of the store `against`, by round, with its interval."""
    rows = [
        {
            "series": looks.labels[series],
            "rounds": one.rounds,
            "value": one.ratio,
            "low": one.low,
            "high": one.high,
            "batch": one.batch,
            "description": described(
                ("", looks.labels[series]),
                ("after rounds", f"{one.rounds:,}"),
                (f"QPS over that of {against}", formatting.number(one.ratio)),
                ("between", f"{formatting.number(one.low)} and {formatting.number(one.high)}"),
            ),
        }
        for series, some in running.items()
        for one in some
    ]

    def spec(width: int, with_legend: bool) -> dict[str, Any]:
        log = Settings(type="log", padding=8, nice=False)
        x = channel("rounds:Q", title="rounds", axis=Settings(tickCount=6))

        def y(field: str) -> Settings:
            title, axis = f"QPS over that of {against} (log)", Settings(format=".3~r", tickCount=6)
            return channel(f"{field}:Q", title=title, scale=log, axis=axis)

        colours, shapes, _ = looks.scales(list(running))
        key = legend(with_legend, width, len(running))
        base = chart_of(rows).encode(x=x, color=channel("series:N", scale=colours, legend=key))
        chart = layer(
            base.mark("area", opacity=0.14, aria=False).encode(
                y=y("low"), y2="high:Q", detail="series:N"
            ),
            base.mark("line", strokeWidth=1.8, aria=False).encode(y=y("value"), detail="series:N"),
            base.mark("point", size=22, filled=True, opacity=0.55).encode(
                y=y("batch"),
                shape=channel("series:N", scale=shapes, legend=key),
                description="description:N",
            ),
        )
        return finished(chart, width, round(min(320, max(240, width * 0.45))))

    return spec
