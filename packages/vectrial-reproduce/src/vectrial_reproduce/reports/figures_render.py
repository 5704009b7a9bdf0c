"""Charts of a reproduction: published series are hollow, measured series filled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vectrial.document.charts import moments as moment_lines
from vectrial.document.charts.styles import SHAPES, colour, pair_colours
from vectrial.document.charts.theme import (
    NARROW,
    chart_of,
    description,
    finish_chart,
    ink,
    legend,
    log_ticks,
)
from vectrial.document.charts.vegalite import Chart, Settings, channel, layer
from vectrial.model.trial import Series
from vectrial.util import formatting
from vectrial_reproduce.reports.figures_data import Dot, Plot
from vectrial_reproduce.reports.model import Drawing
from vectrial_reproduce.reports.tables import system

_Spec = Callable[[int, bool], dict[str, Any]]

#: Dashes of what was published, and of what was measured.
_DASHED, _SOLID = [6, 4], [1, 0]


@dataclass(frozen=True)
class Palette:
    """The looks of the series of a page: a colour and a marker for each system.

    here: system → what was measured, if it is not that system as the report had it.
    """

    systems: tuple[str, ...]
    here: Mapping[str, str] = field(default_factory=dict)

    @property
    def stores(self) -> tuple[str, ...]:
        """The names under which `styles.colour` knows the series."""
        return pair_colours(self.systems, tuple(map(_published_name, self.systems)))

    @property
    def labels(self) -> dict[Series, str]:
        """The names of the series; the measured ones first."""
        return {
            self.series(name, of): f"{name if of else self.measured(name)},"
            f" {'published' if of else 'measured'}"
            for of in (False, True)
            for name in self.systems
        }

    def measured(self, name: str) -> str:
        """A system and the store measured for it."""
        return system(name, self.here.get(name, ""))

    @property
    def like(self) -> dict[Series, Series]:
        """The measured series whose looks each published series has, but hollow."""
        return {self.series(s, True): self.series(s, False) for s in self.systems}

    def series(self, name: str, published: bool) -> Series:
        """The series of a system."""
        return Series(
            _published_name(name) if published else name, "", "published" if published else ""
        )

    def shown(self, plot: Plot) -> tuple[Series, ...]:
        """The series of a plot: for each system the published one, then the measured one."""
        held = {(dot.system, dot.published) for dot in plot.dots}
        return tuple(
            self.series(name, of)
            for name in plot.systems
            for of in (True, False)
            if (name, of) in held
        )

    def encoding(self, series: Sequence[Series], key: Settings | None) -> dict[str, Any]:
        """Stroke, fill, dash and shape of `series` by their labels: published series are hollow and
        dashed. `key` is the legend of all of them."""
        labels, like = self.labels, self.like
        domain = [labels[one] for one in series]
        hues = [colour(one.store, self.stores) for one in series]
        fills = [ink("paper") if s in like else hue for s, hue in zip(series, hues, strict=True)]
        shapes = [SHAPES[self.systems.index(like.get(s, s).store) % len(SHAPES)] for s in series]

        def scale(range_: Sequence[Any]) -> Settings:
            return Settings(domain=domain, range=range_)

        return {
            "stroke": channel("series:N", scale=scale(hues), legend=key),
            "fill": channel("series:N", scale=scale(fills), legend=key),
            "shape": channel("series:N", scale=scale(shapes), legend=key),
            # No scale, whose dashes the marks of the legend would take on.
            "strokeDash": {
                "condition": {"test": "datum.of == 'published'", "value": _DASHED},
                "value": _SOLID,
            },
        }


def _published_name(name: str) -> str:
    return f"{name}, published"


def chart(plot: Plot, palette: Palette) -> _Spec:
    """The chart of a plot that has marks."""
    rows = [_row(plot, dot, palette) for dot in plot.dots]
    kinds = {"line": _lines, "tradeoff": _lines, "bar": _bars, "share": _shares}
    draw = kinds[plot.drawing.kind]
    return lambda width, with_legend: draw(plot, rows, palette, width, with_legend)


def _row(plot: Plot, dot: Dot, palette: Palette) -> dict[str, Any]:
    label = palette.labels[palette.series(dot.system, dot.published)]
    drawing = plot.drawing
    title = drawing.x_title.removesuffix(" (log)") or "at"
    return {
        "series": label,
        "of": "published" if dot.published else "measured",
        "at": dot.at,
        "x": dot.x,
        "value": dot.value,
        "part": dot.part,
        "shown": plot.label(dot),
        "description": description(
            ("", label),
            (dot.part or drawing.y_title.removesuffix(" (log)"), plot.label(dot)),
            (title, dot.at if dot.x is None else formatting.number(dot.x)),
            ("rows loaded", f"{dot.rows:,}" if dot.rows and "rows" not in title else ""),
        ),
    }


def _is_log(plot: Plot, axis: str, values: Sequence[float]) -> bool:
    """True if an axis should be logarithmic and its values allow it."""
    return axis in plot.drawing.logs and min(values) > 0


def _lines(
    plot: Plot, rows: list[dict[str, Any]], palette: Palette, width: int, with_legend: bool
) -> dict[str, Any]:
    series = palette.shown(plot)
    xs, ys = [row["x"] for row in rows], [row["value"] for row in rows]
    if log := _is_log(plot, "x", xs):
        x_scale = Settings(type="log", padding=18, nice=False)
    else:
        x_scale = Settings(padding=18, nice=False, zero=False)
    # A setting has the same few values in all series; numbers of rows have not.
    settings = len(set(xs)) <= 5
    ticks = sorted(set(xs)) if settings else log_ticks(xs)
    x = channel(
        "x:Q",
        title=plot.drawing.x_title,
        scale=x_scale,
        axis=Settings(values=ticks, format=".3~s" if max(xs) >= 10_000 else ",.6~r",
                      labelOverlap=True)
        if settings or log
        else Settings(tickCount=6 if width >= NARROW else 4),
    )  # fmt: skip
    y_log = _is_log(plot, "y", ys)
    y = channel(
        "value:Q",
        title=plot.drawing.y_title,
        scale=Settings(type="log", padding=14, nice=False) if y_log else _axis_from_zero(ys),
        axis=Settings(format=",.6~r", values=log_ticks(ys), labelOverlap=True)
        if y_log
        else Settings(tickCount=6, format=",.6~r"),
    )
    key = legend(with_legend, width, len(series))
    looks = palette.encoding(series, key)
    base = chart_of(rows).encode(x=x, y=y)
    line = base.mark("line", strokeWidth=1.8, fill=None, aria=False)
    mark = base.mark("point", size=80, opacity=1, strokeWidth=1.4)
    drawn = layer(
        *_moment_lines(plot, palette, x, looks["stroke"]),
        *_limit(plot.drawing),
        line.encode(detail="series:N", stroke=looks["stroke"], strokeDash=looks["strokeDash"]),
        mark.encode(
            stroke=looks["stroke"], fill=looks["fill"], shape=looks["shape"],
            description="description:N",
        ),
    )  # fmt: skip
    return finish_chart(drawn, width, round(min(360, max(250, width * 0.45))))


def _moment_lines(plot: Plot, palette: Palette, x: Settings, stroke: Settings) -> list[Chart]:
    """Vertical lines at the moments of the measured series."""
    rows = []
    for moment in plot.moments:
        label = palette.labels[palette.series(moment.system, False)]
        said = (moment_lines.MOMENTS[moment.metric], f"{formatting.number(moment.x)} s")
        rows.append(
            {"series": label, "metric": moment.metric, "x": moment.x,
             "description": description(("", label), said)}
        )  # fmt: skip
    return moment_lines.rules(rows, x, stroke) if rows else []


def _limit(drawing: Drawing) -> list[Chart]:
    """The limit line that the report draws."""
    if drawing.limit is None:
        return []
    said = description(("", "the report's line"), (drawing.y_title, f"{drawing.limit:g}"))
    rule = chart_of([{"limit": drawing.limit, "description": said}]).mark(
        "rule", strokeDash=[2, 3], color=ink("muted")
    )
    return [rule.encode(y="limit:Q", description="description:N")]


def _axis_from_zero(values: Sequence[float]) -> Settings:
    """An axis from zero, unless all values are far from it (recall)."""
    low, high = min(values), max(values)
    if high <= 1 and low > 0.5:
        floor = max(0.0, low - 0.15 * (1 - low) - 0.001)
        return Settings(domain=[floor, 1 + 0.03 * (1 - floor)], nice=False)
    return Settings(domain=[0, high * 1.06], nice=False)


def _bars(
    plot: Plot, rows: list[dict[str, Any]], palette: Palette, width: int, with_legend: bool
) -> dict[str, Any]:
    series = palette.shown(plot)
    names = list(dict.fromkeys(row["at"] for row in rows))
    values = [row["value"] for row in rows]
    log = _is_log(plot, "x", values)
    room = 1.15 if width >= NARROW else 1.3
    low, high = min(values), max(values)
    base_at = low / 3 if log else 0.0
    scale = (
        Settings(type="log", domain=[base_at, high * (high / base_at) ** (room - 1)], nice=False)
        if log
        else Settings(domain=[0, high * room], nice=False)
    )
    axis = (
        Settings(format=",.6~r", values=log_ticks([base_at, high]), labelOverlap=True)
        if log
        else Settings(format=",.6~r", tickCount=6 if width >= NARROW else 4)
    )
    for row in rows:
        row["base"] = base_at
    looks = palette.encoding(series, legend(with_legend, width, len(series)))
    del looks["shape"]
    base = chart_of(rows).encode(
        x=channel("value:Q", title=plot.drawing.y_title, scale=scale, axis=axis, stack=None),
        y=channel("at:N", title=None, sort=names, scale=Settings(padding=0.12), axis=_names(names)),
        yOffset=channel(
            "series:N",
            sort=[palette.labels[one] for one in series],
            scale=Settings(paddingInner=0.16),
        ),
    )
    drawn = layer(
        base.mark("bar", strokeWidth=1.3).encode(x2="base:Q", description="description:N", **looks),
        base.mark("text", align="left", dx=5, aria=False).encode(text="shown:N"),
    )
    each = 17 * max(1, len(series)) + 12
    return finish_chart(drawn, _name_width(names, width), each * len(names))


def _name_width(names: Sequence[str], width: int) -> int:
    """Plot width next to an axis of names that makes the total as wide as other charts: short names
    leave more room than long ones."""
    longest = max(len(line) for name in names for line in name.split(", "))
    return round(width + 40 - 6.2 * min(longest, 20))


def _names(names: Sequence[str]) -> Settings:
    """An axis of names; long ones are broken at their commas."""
    return Settings(
        grid=False, ticks=False, domain=False, labelColor=ink("ink"), labelPadding=6,
        labelExpr="split(datum.label, ', ')",
    )  # fmt: skip


def _shares(
    plot: Plot, rows: list[dict[str, Any]], palette: Palette, width: int, with_legend: bool
) -> dict[str, Any]:
    parts = list(dict.fromkeys(row["part"] for row in rows))
    for row in rows:
        row["name"] = f"{row['at']}, {row['of']}"
        row["order"] = parts.index(row["part"])
    names = list(dict.fromkeys(row["name"] for row in rows))
    steps = Settings(domain=parts, range=[ink(f"step{i + 1}") for i in range(len(parts))])
    drawn = (
        chart_of(rows)
        .mark("bar", height={"band": 0.7})
        .encode(
            x=channel(
                "value:Q",
                title=plot.drawing.y_title,
                stack="zero",
                scale=Settings(domain=[0, 100]),
                axis=Settings(tickCount=5),
            ),
            y=channel("name:N", title=None, sort=names, axis=_names(names)),
            color=channel(
                "part:N",
                scale=steps,
                legend=Settings(orient="top", title=None, direction="horizontal"),
            ),
            order="order:Q",
            description="description:N",
        )
    )
    return finish_chart(drawn, _name_width(names, width), 34 * len(names))
