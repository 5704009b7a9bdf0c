"""Vega-Lite specifications, written as plain dicts.

Vega-Lite's documentation (https://vega.github.io/vega-lite/docs) explains the names and values that
are used here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
#: The type of a field, by the letter after its name.
_TYPES = {"Q": "quantitative", "N": "nominal", "O": "ordinal"}

#: An axis, a legend, a scale, or another part of a specification, by the names of its settings.
Settings = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]


def channel(shorthand: str, **settings: Any) -> Settings:
    """A channel of a chart, such as its x axis: "rows:Q" is the field `rows`, of quantities; N
    stands for names and O for names in order."""
    name, _, kind = shorthand.rpartition(":")
    return {"field": name, "type": _TYPES[kind], **settings}


def constant(value: object) -> Settings:
    """A channel that is the same for every mark."""
    return {"value": value}


@dataclass(frozen=True)
class Chart:
    """A chart, or a layer of one.

    rows: its data, which becomes part of the specification. settings: all else.
    """

    rows: Rows | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def encode(self, **channels: str | Settings) -> Chart:
        """The chart with more channels: settings, or the shorthand of a field. The end of a mark
        (x2, y2) has the type of its beginning."""
        found: Settings = dict(self.settings.get("encoding", {}))
        for name, what in channels.items():
            found[name] = channel(what) if isinstance(what, str) else what
            if name.endswith("2"):
                found[name] = {"field": found[name]["field"]}
        return self._with_settings(encoding=found)

    def mark(self, kind: str, **settings: Any) -> Chart:
        """The chart drawn as marks of a kind: bar, line, point, rule, text."""
        return self._with_settings(mark={"type": kind, **settings})

    def filter(self, test: str) -> Chart:
        """The chart restricted to rows for which an expression is true."""
        return self._with_settings(
            transform=[*self.settings.get("transform", ()), {"filter": test}]
        )

    def resolve_scale(self, **scales: str) -> Chart:
        """The chart with layers that share these scales, or have their own ("independent")."""
        return self._with_settings(resolve={"scale": scales})

    def _with_settings(self, **settings: Any) -> Chart:
        return Chart(self.rows, {**self.settings, **settings})


def layer(*charts: Chart) -> Chart:
    """The charts layered on each other, the last on top."""
    return Chart(None, {"layer": charts})


def specification(chart: Chart, **settings: Any) -> Settings:
    """The whole specification of a chart, with its size and the theme."""
    datasets: dict[str, Rows] = {}
    return {
        "$schema": _SCHEMA,
        **_chart_settings(chart, datasets),
        "datasets": datasets,
        **settings,
    }


def _chart_settings(chart: Chart, datasets: dict[str, Rows]) -> Settings:
    """A chart as plain dicts; its rows are added once to the datasets."""
    plain = dict(chart.settings)
    if "layer" in plain:
        plain["layer"] = [_chart_settings(one, datasets) for one in plain["layer"]]
    if chart.rows is not None:
        known = (name for name, rows in datasets.items() if rows is chart.rows)
        name = next(known, f"rows{len(datasets)}")
        datasets[name] = chart.rows
        plain["data"] = {"name": name}
    return plain
