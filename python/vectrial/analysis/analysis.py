"""Grouping of the points of a run for comparison, and the choice of one point per store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from vectrial.analysis.run_data import Point, RunData
from vectrial.analysis.trial import Trial
from vectrial.model.consistency import FIRST_ANSWERS, NEW_QUERIES
from vectrial.model.phase import Role
from vectrial.model.trial import Series
from vectrial.stats.curves import pareto, read_at
from vectrial.util import formatting
from vectrial.util.file_names import slug

_T = TypeVar("_T")
#: The recalls at which stores are compared; the first is that of the headline.
TARGETS = (0.95, 0.90, 0.99)


@dataclass(frozen=True)
class Facet:
    """Scope of comparison on one sheet: the same rows of the same dataset, the same k, and the same
    data returned for each row. returns: data beside ids and scores; None: nothing."""

    dataset: str
    rows: int
    k: int | None = None
    returns: str | None = None

    @property
    def title(self) -> str:
        """Title for people."""
        parts = [self.dataset, formatting.rows(self.rows)]
        parts += [f"k = {self.k}"] if self.k is not None else []
        parts += [f"returning {self.returns}"] if self.returns is not None else []
        return " · ".join(parts)

    @property
    def slug(self) -> str:
        """Name for files."""
        parts = [self.dataset, str(self.rows), *([f"k{self.k}"] if self.k is not None else [])]
        parts += [self.returns] if self.returns is not None else []
        return slug("-".join(parts))

    def select(self, points: Sequence[Point]) -> list[Point]:
        """Points on this dataset with as many rows: a smaller cut says nothing of the whole."""
        return [p for p in points if p.dataset == self.dataset and loaded_rows(p) == self.rows]


@dataclass(frozen=True)
class Sweep:
    """Search points of one facet, each with recall and qps of the same requests."""

    facet: Facet
    points: tuple[Point, ...]

    @cached_property
    def series(self) -> tuple[Series, ...]:
        """All series that were measured here, including wrong ones."""
        return tuple(dict.fromkeys(point.series for point in self.points))

    def select(self, series: Series, state: str | None = "ok") -> list[Point]:
        """A series' points in one state (None: any state)."""
        return [p for p in self.points if p.series == series and state in (None, p.state)]

    def ranked(self, series: Series) -> list[Point]:
        """A series' points that may be compared with others."""
        return [p for p in self.points if p.series == series and p.ranked]

    def best(self, series: Series, recall: float) -> Point | None:
        """The fastest measured point of at least this recall, among points that may be ranked."""
        points = self.ranked(series)
        index = fastest_at(coordinates(points), recall)
        return None if index is None else points[index]

    def qps_at_recall(
        self, series: Series, recall: float
    ) -> tuple[float, tuple[Point, ...]] | None:
        """Qps at exactly this recall, and the measured points on either side; None outside their
        range."""
        points = self.ranked(series)
        found = read_at(coordinates(points), recall)
        return None if found is None else (found.value, tuple(points[i] for i in found.points))

    def front(self, series: Series | None = None) -> list[Point]:
        """Pareto front of a series, or of everything that may be ranked, by ascending recall."""
        points = [p for p in self.points if p.ranked and series in (None, p.series)]
        return [points[i] for i in pareto(coordinates(points))]


def coordinates(points: Iterable[Point]) -> list[tuple[float, float]]:
    """(recall, qps) medians; a point that lacks either is left out."""
    out = []
    for point in points:
        recall, qps = point.value("recall_mean"), point.value("qps")
        known = recall is not None and qps is not None
        out.append((recall, qps) if known else (-1.0, -1.0))
    return out  # type: ignore[return-value]


def fastest_at(points: Sequence[tuple[float, float]], recall: float) -> int | None:
    """Index of the (recall, qps) point of greatest qps among points of at least this recall."""
    able = [i for i, point in enumerate(points) if point[0] >= recall]
    return max(able, key=lambda i: (points[i][1], points[i][0], -i)) if able else None


def sweeps(run: RunData, clients: int | None = None) -> list[Sweep]:
    """Searches of the whole dataset by this many clients, by default the fewest of any search."""
    found = [p for p in closed_loops(run) if _is_search(p)]
    if clients is None:
        clients = min(clients_of(found), default=1)
    points = [p for p in found if p.params.get("clients", 1) == clients]
    grouped: dict[Facet, list[Point]] = defaultdict(list)
    for point in points:
        grouped[facet_of(point, with_k=True)].append(point)
    return [Sweep(facet, tuple(members)) for facet, members in sorted_facets(grouped)]


def clients_of(points: Iterable[Point]) -> list[int]:
    """The numbers of clients of points, ascending."""
    return sorted({int(point.params.get("clients", 1)) for point in points})


def closed_loops(run: RunData) -> list[Point]:
    """Searches of the whole dataset by clients that wait for each answer."""
    return [
        p
        for p in run.points_in_role(Role.SEARCH)
        if "rate" not in p.params and p.params.get("loop") != "open" and "rows" not in p.params
    ]


def _is_search(point: Point) -> bool:
    return point.value("recall_mean") is not None and point.value("qps") is not None


def facet_of(point: Point | Trial, with_k: bool = False) -> Facet:
    """The facet of a point; for a trial, as far as its own parameters tell."""
    k = point.params.get("k") if with_k else None
    returns = point.params.get("returns") if with_k else None
    more = str(returns) if returns not in (None, "ids") else None
    return Facet(point.dataset, point.rows, k if isinstance(k, int) else None, more)


def by_facet(points: Iterable[Point], with_k: bool = False) -> list[tuple[Facet, list[Point]]]:
    """Points by facet, datasets in order of name and size."""
    grouped: dict[Facet, list[Point]] = defaultdict(list)
    for point in points:
        grouped[facet_of(point, with_k)].append(point)
    return sorted_facets(grouped)


def sorted_facets(grouped: Mapping[Facet, list[_T]]) -> list[tuple[Facet, list[_T]]]:
    """Facets sorted by dataset, then size, then k, then the data returned."""

    def place(facet: Facet) -> tuple[str, int, int, str]:
        return facet.dataset, facet.rows, facet.k or 0, facet.returns or ""

    return sorted(grouped.items(), key=lambda item: place(item[0]))


def loaded_rows(point: Point) -> int:
    """Number of rows that an ingest point loaded: its checkpoint."""
    rows = point.params.get("rows", point.rows)
    return int(rows) if isinstance(rows, int | float) else point.rows


#: Parameters with their own columns beside the settings of a point.
LOAD = ("k", "clients", "rows", "loop", "rate", "arrivals")
#: Parameters that say how a look for a capacity ended.
VERDICT = ("passed", "client_bound", "why")


def operating_point(point: Point, without: Sequence[str] = LOAD) -> str:
    """Index and search parameters, as shown beside a figure."""
    values = {**point.index_params, **point.params}
    if values.get("returns") == "ids":  # the default, which is not shown
        del values["returns"]
    return formatting.params({k: v for k, v in values.items() if k not in without})


def remark(point: Point) -> str:
    """Reason why a point does not count, or the notes of its phases, without repetition."""
    notes: dict[str, str] = {}
    for note in "; ".join(phase.reason for phase in point.phases if phase.reason).split("; "):
        same = (one for one in (FIRST_ANSWERS, NEW_QUERIES) if note.startswith(one))
        notes.setdefault(next(same, note), note)
    for told in (FIRST_ANSWERS, NEW_QUERIES):
        if point.doubt and told in point.doubt:
            notes.pop(told, None)
    return "; ".join(filter(None, (point.doubt, point.reason or "; ".join(notes.values()))))


def points_of_series(
    points: Iterable[Point], series: Series, index_params: Mapping[str, Any]
) -> list[Point]:
    """A series' points; only those built with these index parameters, if there are any."""
    own = [p for p in points if p.series == series]
    same = [p for p in own if p.index_params == index_params]
    return same or own
