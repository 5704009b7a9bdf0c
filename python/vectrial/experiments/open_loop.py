"""What latency at this load: requests arrive by a schedule that does not wait for answers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from vectrial.experiments.base import Experiment, Returns, Target, search_points
from vectrial.model import workload
from vectrial.model.context import Context
from vectrial.model.inputs import InFlight, PositiveSeconds, Rate, Warmup, read_bytes
from vectrial.model.lane import Lane
from vectrial.model.phase import Phase
from vectrial.model.store import Returning
from vectrial.workload import dispatch

#: Bytes of a file of arrival times: some four million of them.
_TRACE_BYTES = 64 << 20


class OpenLoop(Experiment):
    """Requests at each rate, on a schedule that does not wait for answers.

    rates: arrivals per second, each a phase. search: one operating point (no lists).
    returns: what comes with each row found: "ids", "metadata" or "vectors"; or a list of them.
    arrivals: "poisson" (seeded), "constant", or "trace".
    trace: arrival times in seconds, ascending: a list, or the path of a file with one in each
        line. It is played at its own pace, or stretched to each of `rates` where these are given.
    duration_s: of each phase, after the warm-up; a trace ends earlier when it is over.
    in_flight: requests in flight at most; an arrival that finds no room waits, and is counted. In
        the sdk lane, clients: at most 64, in threads of as many processes as there are cores; in
        the embedded lane, 64 threads of one process, or one where a store allows no more.
    """

    name: ClassVar[str] = "open_loop"
    title: ClassVar[str] = "Fixed arrival rate (open loop)"
    axes: ClassVar[frozenset[str]] = frozenset({"rates", "search", "returns"})
    lanes: ClassVar[frozenset[Lane] | None] = frozenset(Lane)

    rates: tuple[Rate, ...] = ()
    arrivals: Literal["poisson", "constant", "trace"] = "poisson"
    trace: tuple[float, ...] = ()
    search: dict[str, int | float | str | bool] = Field(default_factory=dict)
    returns: Returns = (Returning.IDS,)
    duration_s: PositiveSeconds = 10.0
    warmup_queries: Warmup = 100
    in_flight: InFlight = workload.IN_FLIGHT

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
    def _fits(self) -> OpenLoop:
        times = self.trace
        if (self.arrivals == "trace") != bool(times):
            raise ValueError('arrivals = "trace" goes with a trace, and a trace with it')
        if self.arrivals != "trace" and not self.rates:
            raise ValueError("rates are missing: arrivals per second, as [100, 1000]")
        if times and (times[0] < 0 or any(b < a for a, b in pairwise(times)) or not times[-1]):
            raise ValueError("the times of a trace ascend from 0, and not all are 0")
        return self

    def points(self, target: Target) -> list[dict[str, Any]]:
        return [
            {"rate": rate, **point}
            for rate in dict.fromkeys(self.rates or (self._own_rate(),))
            for point in search_points(target, self.search, self.returns)
        ]

    def clients_at(self, point: Mapping[str, Any]) -> int | None:
        """None: the loop is open."""
        return None

    def _own_rate(self) -> float:
        """Arrivals per second of the trace at its own pace."""
        return len(self.trace) / self.trace[-1]

    def offsets(self, rate: float) -> NDArray[np.int64]:
        """The trace in nanoseconds from its start, stretched to so many arrivals per second."""
        return np.rint(np.array(self.trace) * 1e9 * self._own_rate() / rate).astype(np.int64)

    def _name(self) -> str:
        """Of the trace, by its times, so that results under two traces are told apart."""
        return hashlib.sha256(np.array(self.trace).tobytes()).hexdigest()[:8]

    def offered(self, rate: float) -> workload.OpenLoop:
        """So many arrivals per second."""
        if self.arrivals != "trace":
            return workload.OpenLoop(rate, self.duration_s, self.arrivals, in_flight=self.in_flight)
        offsets = self.offsets(rate)
        length_s = min(self.duration_s, int(offsets[-1]) / 1e9 + 1 / rate)
        return workload.OpenLoop(
            rate, length_s, self.arrivals, offsets, self.in_flight, self._name()
        )

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        load = self.offered(float(point["rate"]))
        yield dispatch.search(context, point, load, warmup_queries=self.warmup_queries)

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """The duration and a warm-up."""
        return self.duration_s + 0.5
