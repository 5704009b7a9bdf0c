"""The origin of a run's figures: every measured point with its conditions and the values of its
repeats, on pages of a bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vectrial.analysis.run_data import Point, RunData
from vectrial.analysis.trial import Trial
from vectrial.document.blocks import Source
from vectrial.experiments.registry import all_metrics
from vectrial.util import formatting

#: Points on one page.
_PAGE = 60


@dataclass(frozen=True)
class MetricLine:
    """A metric of a point, with the value of each repeat: (shown, state, reason)."""

    anchor: str
    metric: str
    meaning: str
    values: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class PointValues:
    """A point as a page shows it. conditions: (name, value). repeats: headings of the columns."""

    anchor: str
    title: str
    state: str
    reason: str
    conditions: tuple[tuple[str, str], ...]
    repeats: tuple[str, ...]
    lines: tuple[MetricLine, ...]


@dataclass(frozen=True)
class Derived:
    """A figure made from several points, each given by (name of a point, its address)."""

    anchor: str
    what: str
    how: str
    of: tuple[tuple[str, str], ...]


_READ = (
    "read off at a recall of {}: between two neighbouring settings, straight in recall and in the"
    " logarithm of the value"
)


class Values:
    """The pages of values of one run, and the addresses of figures on them."""

    def __init__(self, run: RunData, folder: str) -> None:
        """folder: folder of the run's pages, below the root of the site."""
        self._run, self._folder = run, folder
        self._trial: dict[int, Trial] = {}
        #: Every phase with its place among `points`.
        self._place: dict[int, int] = {}
        self._members: dict[tuple[Any, ...], list[tuple[Trial, Any]]] = {}
        for trial, phase in run.phases():
            self._trial[phase.phase_id] = trial
        self.points: tuple[Point, ...] = tuple(p for p in run.points if p.phases)
        for number, point in enumerate(self.points):
            for phase in point.phases:
                self._place[phase.phase_id] = number
        self._derived: dict[Source, Derived] = {}

    @property
    def pages(self) -> int:
        """Number of pages."""
        return -(-len(self.points) // _PAGE)

    def page_of(self, number: int) -> str:
        """The address of a page of values, from 1, below the root."""
        return f"{self._folder}/values-{number}.html"

    @property
    def derived_page(self) -> str:
        """The address of the page of figures made of several points."""
        return f"{self._folder}/values-of-several.html"

    def address(self, source: Source) -> str:
        """The address of the values from which a figure was made, below the root of the site."""
        if source.trial is not None:
            found = (i for i, t in self._trial.items() if t.trial_id == source.trial)
            return self._address_of(self._place.get(next(found, -1), 0))
        numbers = list(dict.fromkeys(self._place[i] for i in source.phases if i in self._place))
        if not numbers:
            return self.page_of(1)
        if len(numbers) == 1:
            return self._address_of(numbers[0], source.metric)
        if source not in self._derived:
            anchor = f"f{len(self._derived) + 1}"
            how = "" if source.recall is None else _READ.format(f"{source.recall:g}")
            of = tuple((self._name(n), self._address_of(n, source.metric)) for n in numbers)
            self._derived[source] = Derived(anchor, source.metric, how, of)
        return f"{self.derived_page}#{self._derived[source].anchor}"

    @property
    def derived(self) -> Sequence[Derived]:
        """The figures made from several points whose address was requested."""
        return list(self._derived.values())

    def page(self, number: int) -> list[PointValues]:
        """The points of a page."""
        first = (number - 1) * _PAGE
        return [self._values(point) for point in self.points[first : first + _PAGE]]

    def _address_of(self, number: int, metric: str = "") -> str:
        point = self.points[number]
        anchor = f"p{point.phases[0].phase_id}"
        if metric and any(metric in phase.metrics for phase in point.phases):
            anchor += f"-{metric}"
        return f"{self.page_of(number // _PAGE + 1)}#{anchor}"

    def _name(self, number: int) -> str:
        point = self.points[number]
        setting = formatting.params({**point.index_params, **point.params})
        return f"{self._run.labels[point.series]} · {point.experiment} · {point.phase} · {setting}"

    def _values(self, point: Point) -> PointValues:
        trials = [self._trial[phase.phase_id] for phase in point.phases]
        anchor = f"p{point.phases[0].phase_id}"
        reason = "; ".join(filter(None, (point.reason, point.doubt)))
        title = f"{self._run.labels[point.series]} · {point.experiment} · {point.phase}"
        heads = tuple(f"Repeat {trial.repeat}" for trial in trials)
        conditions = tuple(self._conditions(point, trials[0]))
        return PointValues(
            anchor, title, point.state, reason, conditions, heads, self._lines(point, anchor)
        )

    def _conditions(self, point: Point, trial: Trial) -> Iterator[tuple[str, str]]:
        yield "Store", " ".join(filter(None, (trial.store, trial.store_version)))
        yield "Lane", trial.lane
        yield "Dataset", f"{point.dataset}, {formatting.rows(point.rows)}, {trial.dim} dimensions"
        yield "Metric", trial.metric_space
        index = formatting.params(point.index_params)
        yield "Index", f"{trial.index_kind}: {index}"
        yield "Point", formatting.params(point.params)
        server: Mapping[str, Any] = trial.server or {}
        for name in ("limits", "cpus", "memory_bytes", "cores", "nodes", "hosts", "provider"):
            if server.get(name) not in (None, ""):
                yield f"Server: {name.replace('_', ' ')}", str(server[name])

    def _lines(self, point: Point, anchor: str) -> tuple[MetricLine, ...]:
        known = all_metrics()
        names = dict.fromkeys(name for phase in point.phases for name in phase.metrics)
        lines = []
        for name in names:
            values = []
            for phase in point.phases:
                found = phase.metrics.get(name)
                if found is None:
                    values.append((formatting.NOTHING, "absent", "not recorded"))
                elif found.value is None:
                    values.append((formatting.NOTHING, "absent", found.reason or ""))
                else:
                    good = found.valid and phase.valid
                    shown = formatting.figure(name, found.value, found.unit)
                    values.append((shown, "ok" if good else "invalid", found.reason or ""))
            meaning = known[name].meaning if name in known else ""
            lines.append(MetricLine(f"{anchor}-{name}", name, meaning, tuple(values)))
        return tuple(lines)
