"""Lines that mark in a chart when a load was acknowledged and when it was ready."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vectrial.document.charts.theme import chart_of, ink
from vectrial.document.charts.vegalite import Chart, Settings, constant

#: Metrics of the phase `searchable` that are moments since the load began, and what happens then.
MOMENTS: Mapping[str, str] = {
    "load_s": "last row acknowledged",
    "ready_s": "served by the final index",
}
#: Of the line at each of them: its dashes, its name, and on which side that stands (-1: left), so
#: that those of a store that is ready at once do not cover each other.
_LINES = {"load_s": ([2, 3], "loaded", -1), "ready_s": ([1, 0], "ready", 1)}
#: Caption that explains the lines.
CAPTION = (
    "Upright lines: dotted where a store had acknowledged its last row, whole where every row was"
    " served by the final index (ready). What is found between the two, or before, by a store that"
    " indexes afterwards was found by comparing with all."
)


def rules(moments: Sequence[Mapping[str, Any]], x: Settings, stroke: Settings) -> list[Chart]:
    """Vertical lines at `x`, for rows with its field, `series`, `metric` (of `MOMENTS`) and
    `description`; each is named at its foot."""
    found = []
    for metric, (dash, named, side) in _LINES.items():
        base = chart_of([one for one in moments if one["metric"] == metric])
        name = base.mark("text",
            angle=270, align="left", baseline="bottom" if side < 0 else "top", dx=4, dy=2 * side,
            color=ink("muted"), aria=False,
        )  # fmt: skip
        found += [
            base.mark("rule", strokeWidth=1.6, strokeDash=dash).encode(
                x=x, stroke=stroke, description="description:N"
            ),
            name.encode(x=x, y=constant("height"), text=constant(named)),
        ]
    return found
