"""Common parts of all charts: type, colours, axes, legends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vectrial.document.charts.styles import INK, colour, dash, shape
from vectrial.document.charts.vegalite import Chart, Settings, channel, layer, specification
from vectrial.model.trial import Series

FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
#: Plot widths below this are drawn for a phone: fewer ticks, two legend columns.
NARROW = 480


def ink(name: str) -> str:
    """A colour of the drawing by name, for white paper."""
    return INK[name][0]


@dataclass(frozen=True)
class Looks:
    """Styles of a run's series in charts."""

    labels: Mapping[Series, str]
    stores: Sequence[str]

    def scales(self, series: Sequence[Series]) -> tuple[Settings, Settings, Settings]:
        """Colour, shape and dash scales over the labels of `series`."""
        domain = [self.labels[s] for s in series]
        return (
            Settings(domain=domain, range=[colour(s.store, self.stores) for s in series]),
            Settings(domain=domain, range=[shape(s, self.labels) for s in series]),
            Settings(domain=domain, range=[dash(s, self.labels) for s in series]),
        )


def legend(shown: bool, width: int, count: int) -> Settings | None:
    """The legend below a chart; None in the HTML, which has its own."""
    if not shown:
        return None
    columns = max(1, min(count, width // 150))
    return Settings(
        orient="bottom", title=None, columns=columns, labelLimit=240, symbolSize=90, symbolOpacity=1
    )


def chart_of(rows: Sequence[Mapping[str, Any]]) -> Chart:
    """A chart over plain rows, which become part of the specification."""
    return Chart(list(rows))


def lines_of(
    rows: Sequence[Mapping[str, Any]],
    x: Settings,
    y: Settings,
    scales: tuple[Settings, Settings, Settings],
    key: Settings | None,
) -> Chart:
    """A line and marks per series, with its spread, over rows with `series`, `line`, `low`, `high`,
    `ok` and `description`; a row that does not count (not `ok`) is a hollow mark off the line."""
    colours, shapes, dashes = scales
    shape = channel("series:N", scale=shapes, legend=key)
    colour = channel("series:N", scale=colours, legend=key)
    base = chart_of(rows).encode(x=x, y=y, color=colour)
    good = base.filter("datum.ok")
    return layer(
        good.mark("line", strokeWidth=1.8, aria=False).encode(
            detail="line:N", strokeDash=channel("series:N", scale=dashes, legend=key)
        ),
        good.mark("rule", strokeWidth=1.4, aria=False).encode(y="low:Q", y2="high:Q"),
        good.mark(
            "point", size=80, filled=True, opacity=1, stroke=ink("paper"), strokeWidth=1
        ).encode(shape=shape, description="description:N"),
        base.filter("!datum.ok")
        .mark("point", size=80, filled=False, strokeWidth=1.4)
        .encode(shape=shape, description="description:N"),
    )


def plot_width(width: int) -> int:
    """Plot width of a chart with names on its y axis, so that the whole is as wide as others."""
    return round(width * 0.84) if width >= NARROW else round(width * 0.74)


def log_ticks(values: Sequence[float]) -> list[float]:
    """Lines of a log axis: 1, 2, 5 of each decade, or whole decades over a wide range."""
    known = [value for value in values if value > 0]
    if not known:
        return []
    low, high = min(known), max(known)
    steps = (1, 2, 5) if high / low < 1000 else (1, 3) if high / low < 30_000 else (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [float(f"{step}e{decade}") for decade in decades for step in steps]


def finish_chart(chart: Chart, width: int, height: int) -> dict[str, Any]:
    """The chart at its size in the common theme, as a Vega-Lite specification."""
    small = 11 if width >= NARROW else 10.5
    config = Settings(
        font=FONT,
        padding=4,
        view=Settings(stroke=None),
        axis=Settings(
            labelColor=ink("muted"),
            titleColor=ink("muted"),
            labelFontSize=small,
            titleFontSize=small + 0.5,
            titleFontWeight="normal",
            titlePadding=8,
            gridColor=ink("grid"),
            domainColor=ink("axis"),
            tickColor=ink("axis"),
            tickSize=4,
            labelLimit=230 if width >= NARROW else 110,
        ),
        legend=Settings(labelColor=ink("ink"), labelFontSize=11.5, titleColor=ink("muted")),
        text=Settings(color=ink("muted"), fontSize=small),
    )
    return specification(chart, width=width, height=height, background="transparent", config=config)


def description(*parts: tuple[str, str]) -> str:
    """A mark's description: 'label: value' lines; the HTML shows it as a tooltip."""
    return " | ".join(f"{label}: {value}" if label else value for label, value in parts if value)
