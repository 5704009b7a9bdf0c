"""Searches for the nearest rows: recall, QPS and latency of the same requests, at any load."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from vectrial.document.blocks import Figure
from vectrial.document.sheet import LATENCY, SETTING, Sheet, metric
from vectrial.experiments.base import (
    Experiment,
    Numbers,
    Returns,
    Target,
    Values,
    client_points,
    refuse_threads,
    search_points,
)
from vectrial.experiments.common.sizes import check_sizes, resolve_sizes
from vectrial.model import workload
from vectrial.model.capabilities import Returning
from vectrial.model.context import Context
from vectrial.model.inputs import InFlight, PositiveSeconds, Rate, Seconds, Warmup, read_bytes
from vectrial.model.lane import Lane
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Role, TurnTime
from vectrial.workload.search import SearchLoad

if TYPE_CHECKING:
    from vectrial.analysis.analysis import Facet
    from vectrial.analysis.run_data import Point, RunData
    from vectrial.document.charts.theme import Looks

#: Bytes of a file of arrival times: some four million of them.
_TRACE_BYTES = 64 << 20
#: Seconds of an open loop that is not given any.
_OPEN_S = 10.0
#: Seconds of a slice of it, at least.
_OPEN_SLICE_S = 0.5


def _size_figure(run: RunData, facet: Facet, points: Sequence[Point], looks: Looks) -> list[Figure]:
    from vectrial.document.charts import growth

    return [
        Figure(
            f"search-sizes-{facet.slug}",
            f"Latency as the collection grows: {facet.dataset}",
            "Median latency of a search. Each marker is a separate collection, loaded and "
            "indexed alone. A line that rises with the rows is a full scan.",
            f"Latency of a search against rows on {facet.dataset}.",
            growth.chart_by_size(points, "latency_p50", looks),
            run.ordered(points),
        )
    ]


_SHEET = Sheet(
    "Latency as the collection grows",
    "The same searches at each size. Each size is loaded into a separate store.",
    ("search",),
    (("rows", "Rows"), ("clients", "Clients"), ("rate", "Offered/s"), (SETTING, "Setting")),
    (
        *LATENCY,
        metric("qps", "QPS"),
        metric("recall_mean", "Recall"),
        metric("errors", "Errors"),
    ),
    _size_figure,
    only="rows",
    growing=True,
)


class Search(Experiment):
    """Every combination of `search`, by each number of clients or at each arrival rate.

    search: search parameters, each a value or a list; those that an index does not have are left
        out for it.
    returns: parts returned of each row: "ids", "metadata" or "vectors"; or a list of them.
    sizes: parts of the dataset, each loaded alone and searched: fractions of the rows (at most 1)
        or numbers of rows; all rows are measured as well.
    least: sizes with fewer rows than this are left out.

    Closed loop (without `rates` and `trace`):
    clients: each sends its next search when the last one is answered.
    min_s, max_s: whole passes over the queries until min_s have gone; none is sent after max_s.
    duration_s: in place of both: exactly so long, after the warm-up.

    Open loop (with `rates` or a `trace`):
    rates: arrivals per second, on a schedule that does not wait for answers.
    arrivals: "poisson" (seeded), "constant", or "trace".
    trace: arrival times in seconds, ascending: a list, or the path of a file with one in each
        line. It is played at its own pace, or stretched to each of `rates` where these are given.
    duration_s: seconds of each phase, after the warm-up (10 s); a trace ends earlier when it is
        over.
    in_flight: requests in flight at most; an arrival that finds no room waits, and is counted. In
        the sdk lane, clients: at most 64, in threads of as many processes as there are cores; in
        the embedded lane, 64 threads of one process, or one where a store allows no more.
    """

    name: ClassVar[str] = "search"
    title: ClassVar[str] = "Recall, QPS and latency of searches"
    place: ClassVar[int] = 45
    sheet: ClassVar[Sheet | None] = _SHEET
    axes: ClassVar[frozenset[str]] = frozenset({"search", "returns", "clients", "rates", "sizes"})
    replaces: ClassVar[Mapping[str, str]] = {
        "recall_sweep": "",
        "concurrency": "clients = [1, 2, 4, 8]",
        "open_loop": "rates = [100]",
        "size_sweep": "sizes = [0.01, 0.1, 1.0]",
    }
    shares_points: ClassVar[bool] = True
    extent: ClassVar[frozenset[str]] = frozenset(
        {"least", "warmup_queries", "min_s", "max_s", "duration_s"}
    )
    from_client_machines: ClassVar[bool] = True
    lanes: ClassVar[frozenset[Lane] | None] = frozenset(Lane)

    search: dict[str, Values] = Field(default_factory=dict)
    returns: Returns = (Returning.IDS,)
    sizes: tuple[int | float, ...] = ()
    least: int = Field(default=100, ge=1)
    warmup_queries: Warmup = 100
    clients: Numbers = (1,)
    min_s: Seconds = 1.0
    max_s: PositiveSeconds = 20.0
    duration_s: PositiveSeconds | None = None
    rates: tuple[Rate, ...] = ()
    arrivals: Literal["poisson", "constant", "trace"] = "poisson"
    trace: tuple[float, ...] = ()
    in_flight: InFlight = workload.IN_FLIGHT

    _sizes = field_validator("sizes")(check_sizes)

    @field_validator("rates")
    @classmethod
    def _rates(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if not value:
            raise ValueError("it is empty: leave it out for clients that wait for each answer")
        return value

    @field_validator("trace", mode="before")
    @classmethod
    def _read(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            words = read_bytes(Path(value), _TRACE_BYTES).split()
        except OSError as error:
            raise ValueError(f"the file cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise ValueError(f"the file cannot be read: {error}") from error
        try:
            return tuple(float(word) for word in words)
        except ValueError:
            # Nothing of the file is repeated: a suite from elsewhere may name any file.
            raise ValueError("not a file of times in seconds, one in each line") from None

    @model_validator(mode="after")
    def _check_fits(self) -> Search:
        times, given = self.trace, self.model_fields_set
        if (self.arrivals == "trace") != bool(times):
            raise ValueError('arrivals = "trace" goes with a trace, and a trace with it')
        for name in (
            ("clients", "min_s", "max_s") if self.is_open_loop else ("arrivals", "in_flight")
        ):
            if name in given:
                other = "clients" if name in ("arrivals", "in_flight") else "rates"
                raise ValueError(f"{name} does not go with {other}: rates are an open loop")
        if times and (times[0] < 0 or any(b < a for a, b in pairwise(times)) or not times[-1]):
            raise ValueError("the times of a trace ascend from 0, and not all are 0")
        return self

    @property
    def is_open_loop(self) -> bool:
        """True if arrivals follow a schedule, which does not wait for answers."""
        return bool(self.rates or self.trace)

    def points(self, target: Target) -> list[OperatingPoint]:
        found = search_points(target, self.search, self.returns)
        if self.is_open_loop:
            rates = dict.fromkeys(self.rates or (self._own_rate(),))
            found = [point.with_parameters(rate=rate) for rate in rates for point in found]
        else:
            found = client_points(self.clients, found)
        if not self.sizes:
            return found
        rows = target.data.rows
        counts = resolve_sizes(self.sizes, rows, least=min(rows, self.least))
        return [point.with_parameters(rows=count) for count in counts for point in found]

    def check_point(self, target: Target, point: Mapping[str, Any]) -> None:
        """Apply the common checks, and refuse several clients if the store allows one thread."""
        super().check_point(target, point)
        refuse_threads(target, self.clients_at(point) or 1)

    def only_reads(self, point: Mapping[str, Any]) -> bool:
        return not self.sizes

    def clients_at(self, point: Mapping[str, Any]) -> int | None:
        """Number of clients at the point; None for an open loop."""
        return None if self.is_open_loop else int(point.get("clients", 1))

    def _own_rate(self) -> float:
        """Arrivals per second of the trace at its original pace."""
        return len(self.trace) / self.trace[-1]

    def offsets(self, rate: float) -> NDArray[np.int64]:
        """Arrival times of the trace in ns from its start, stretched to this many per second."""
        return np.rint(np.array(self.trace) * 1e9 * self._own_rate() / rate).astype(np.int64)

    def _name(self) -> str:
        """Hash of the trace's arrival times, which keeps results under two traces distinct."""
        return hashlib.sha256(np.array(self.trace).tobytes()).hexdigest()[:8]

    def load_at(self, point: Mapping[str, Any]) -> workload.Load:
        """The load at a point."""
        if not self.is_open_loop:
            own = self.duration_s
            least_s, most_s = (self.min_s, self.max_s) if own is None else (own, own)
            return workload.ClosedLoop(int(point.get("clients", 1)), min_s=least_s, max_s=most_s)
        rate, length_s = float(point["rate"]), self.duration_s or _OPEN_S
        if not self.trace:
            return workload.OpenLoop(rate, length_s, self.arrivals, in_flight=self.in_flight)
        offsets = self.offsets(rate)
        length_s = min(length_s, int(offsets[-1]) / 1e9 + 1 / rate)
        return workload.OpenLoop(
            rate, length_s, self.arrivals, offsets, self.in_flight, self._name()
        )

    def takes_turns(self, point: Mapping[str, Any], lane: Lane) -> bool:
        """True for closed-loop clients, and for the engine's arrivals unless they follow a
        trace."""
        return not self.is_open_loop or (lane is Lane.NATIVE and not self.trace)

    def turn_time(self, point: Mapping[str, Any]) -> TurnTime:
        """The time of turns. An open loop has longer slices: few of their requests wait at the
        end."""
        if self.is_open_loop:
            return TurnTime(self.duration_s or _OPEN_S, _OPEN_SLICE_S)
        return super().turn_time(point)

    def loads(self, context: Context, point: Mapping[str, Any]) -> Generator[SearchLoad]:
        yield SearchLoad(
            context,
            point,
            self.load_at(point),
            warmup_queries=self.warmup_queries,
            role=Role.SEARCH,
        )

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """The duration, or one and a half times the least time."""
        return 0.5 + (self.duration_s or (_OPEN_S if self.is_open_loop else self.min_s * 1.5))
