"""A timed part of a trial, and what it starts from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from vectrial.model.slices import Slice


class Role(StrEnum):
    """Meaning of a phase's figures, whatever experiment measured them. Reports, prices and
    comparisons across experiments rely on it."""

    #: The dataset's queries, each answered by its nearest rows, and nothing else going on: recall
    #: and QPS stand beside those of any other such phase.
    SEARCH = "search"
    #: One kind of single operation by one client; the phase is named after it.
    OPERATION = "operation"
    #: A whole load, from an empty store until every row is served by the final index.
    LOAD = "load"
    #: Disk and memory of the store with every row loaded.
    SIZE = "size"
    #: The highest rate that was sustained within limits.
    CAPACITY = "capacity"
    #: A step towards a phase like the one before: what it measured is no result.
    STEP = "step"


@dataclass
class Phase:
    """A timed part of a trial, as measured.

    role: meaning of its figures beyond the experiment; None if only the experiment knows.

    metrics: name → value, or None with a reason in `missing`. Names are those of
        `vectrial.model.results_schema.METRICS`.
    histograms: name → HDR histogram in the V2 encoding, nanoseconds.
    windows: operation → columns second, count, errors, p50_us, p99_us, max_us, recall.
    errors: (kind, count, first messages).
    started_ns, ended_ns: `time.perf_counter_ns`. paused_ns: time for which its clock stood still in
        between; it really ended that much later.
    unsampled: reason why the server's resource use is unknown; None if everything sampled between
        its start and its yield is its own.
    slices: its slices if it took turns with phases of other stores; its clock stood still between
        them.
    pending: judgements to make once it has been sampled: see `look`.

    A phase is yielded when it has ended, before anything else is done; whatever is judged or read
    back afterwards is written into it then.
    """

    name: str
    started_ns: int
    ended_ns: int
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: dict[str, float | None] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    histograms: dict[str, bytes] = field(default_factory=dict)
    windows: dict[str, Mapping[str, Sequence[float | int | None]]] = field(default_factory=dict)
    errors: list[tuple[str, int, list[str]]] = field(default_factory=list)
    valid: bool = True
    reason: str | None = None
    paused_ns: int = 0
    unsampled: str | None = None
    pending: Callable[[], None] | None = None
    role: Role | None = None
    slices: Sequence[Slice] = ()

    def look(self) -> None:
        """Make the pending judgements of the phase, if any; each is made once."""
        pending, self.pending = self.pending, None
        if pending is not None:
            pending()

    def invalidate(self, why: str) -> None:
        """Mark the phase as not to be trusted, adding this reason to any others."""
        self.valid = False
        self.remark(why)

    def remark(self, what: str) -> None:
        """Add a note on the phase, valid or not, to its notes."""
        self.reason = "; ".join(filter(None, (self.reason, what)))


class State(StrEnum):
    """State of the store that an experiment starts from."""

    EMPTY = "empty"  # no collection yet: the experiment creates and loads it
    LOADED = "loaded"  # every row of the dataset, in the final index
