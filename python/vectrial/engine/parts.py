"""Loads that several machines sent together: the outcome of each as plain data, and their sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Judge, LoadControl, Recorder, histogram_merge
from vectrial.engine.client import Requests, Share, drive
from vectrial.engine.types import LoadOutcome, LoadRecord, LoadSource
from vectrial.model.target import LoadTarget

#: Fields of an outcome that the parts of a load add up to.
_SUMS = (
    "cpu_ns",
    "unsent",
    "in_flight_limit_hits",
    "peak_in_flight",
    "in_flight_s",
    "reconnects",
)


@dataclass(frozen=True)
class Order:
    """A load for machines to send together; can be pickled.

    to: a server that all of them reach. requests: without a judge. truth: of the requests: k,
    accept_offsets, accept_ids and available of a `Judge`. source: of the requests.
    settings: further arguments of `drive`. threads: of each machine. longest_s: at most so long
    until the last answer.
    """

    to: LoadTarget
    requests: Requests
    truth: tuple[int, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
    source: LoadSource
    settings: Mapping[str, Any]
    threads: int
    longest_s: float

    @property
    def judge(self) -> Judge:
        """Of the answers."""
        return Judge(*self.truth)

    def send(self, share: Share, progress: Callable[[LoadControl], None] | None = None) -> Part:
        """Send a machine's share of it."""
        outcome = drive(
            self.to,
            [replace(self.requests, judge=self.judge)],
            [self.source],
            threads=self.threads,
            share=share,
            progress=progress,
            **self.settings,
        )
        return packed(outcome)


@dataclass(frozen=True)
class Sent:
    """A load that machines have sent.

    parts: by machine, with instants of each machine's own clock. started_ns: when it began, by the
    clock of the machine with the store. error_us: within which all of them began, by what is known
    of their clocks and of when each did. lost: what became of machines that have no part.
    """

    parts: Mapping[str, Part]
    started_ns: int
    error_us: float
    lost: tuple[str, ...] = ()

    def outcome(self, judge: Judge) -> LoadOutcome:
        """The whole, by the clock of the machine with the store.

        Raises:
            ValueError: there is no part.
        """
        moved = [moved_to(part, self.started_ns, judge) for part in self.parts.values()]
        return merged(moved, [judge])


@dataclass(frozen=True)
class Part:
    """What one machine saw of a load; can be pickled. All instants are of one clock, which is the
    same for all parts. classes: as of `LoadRecord`, recorders packed. fields: the others of
    `LoadOutcome`."""

    classes: Sequence[dict[str, Any]]
    fields: dict[str, Any]


def packed(outcome: LoadOutcome, by_ns: int = 0) -> Part:
    """An outcome as a part, with every instant moved by so many ns to the clock of all parts."""
    classes = []
    for record in outcome["classes"]:
        record["recorder"].shift(by_ns)
        # Machines warm up when they can: what they merge counts from the start of each.
        record["warmup"].shift(-(record["warmup"].started_ns() or 0))
        requests = record["requests"]
        if requests is not None:
            number, sent, done, succeeded = requests
            requests = number, sent + by_ns, done + by_ns, succeeded
        one: dict[str, Any] = {
            **record,
            "recorder": record["recorder"].pack(),
            "warmup": record["warmup"].pack(),
            "requests": requests,
        }
        classes.append(one)
    fields: dict[str, Any] = {**outcome}
    del fields["classes"]
    fields["started_ns"] += by_ns
    fields["ended_ns"] += by_ns
    return Part(classes, fields)


def moved_to(part: Part, started_ns: int, judge: Judge | None) -> Part:
    """A part of a load of one class, moved so that it began at an instant of another clock."""
    by_ns = started_ns - part.fields["started_ns"]
    outcome: Any = {**part.fields, "classes": [_class([one], judge) for one in part.classes]}
    return packed(outcome, by_ns)


def merged(parts: Sequence[Part], judges: Sequence[Judge | None]) -> LoadOutcome:
    """The outcome of a whole load. `peak_in_flight` is the sum of the machines' peaks, which may
    have been at different instants.

    Args:
        parts: at least one; all started at the same instant of their common clock.
        judges: of the classes, in order.

    Raises:
        ValueError: the parts are not of one load.
    """
    first = parts[0].fields
    fields: dict[str, Any] = {name: sum(part.fields[name] for part in parts) for name in _SUMS}
    backlogs = [part.fields["backlog"] for part in parts]
    known = all(backlog is not None for backlog in backlogs)
    return {
        **fields,  # type: ignore[typeddict-item]
        "classes": [
            _class([part.classes[at] for part in parts], judge) for at, judge in enumerate(judges)
        ],
        "started_ns": first["started_ns"],
        "ended_ns": max(part.fields["ended_ns"] for part in parts),
        "cancelled": any(part.fields["cancelled"] for part in parts),
        "duration_s": first["duration_s"],
        "backlog": [sum(quarter) for quarter in zip(*backlogs, strict=True)] if known else None,
    }


def _class(parts: Sequence[dict[str, Any]], judge: Judge | None) -> LoadRecord:
    def recorder(name: str, of: Judge | None) -> Recorder:
        whole, *others = (Recorder.unpack(part[name], of) for part in parts)
        for other in others:
            whole.merge(other)
        return whole

    def total(name: str) -> int:
        return sum(part[name] for part in parts)

    def joined(name: str) -> Any:
        logs = [part[name] for part in parts]
        if any(log is None for log in logs):
            return None
        return tuple(np.concatenate(columns) for columns in zip(*logs, strict=True))

    return {
        "name": parts[0]["name"],
        "recorder": recorder("recorder", judge),
        "warmup": recorder("warmup", judge),
        "lag": histogram_merge([part["lag"] for part in parts]),
        "issued": total("issued"),
        "in_flight": total("in_flight"),
        "rows": total("rows"),
        "answers": joined("answers"),
        "requests": joined("requests"),
    }
