"""Loads that several machines sent together: the outcome of each as plain data, and their sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Judge, LoadControl, Recorder, histogram_merge
from vectrial.engine.client import MachineShare, Requests, drive
from vectrial.engine.recorders import merge
from vectrial.engine.types import LoadOutcome, LoadRecord, LoadSource
from vectrial.model.store import LoadTarget

#: Fields of an outcome that the parts of a load add up to.
_SUMS = (
    "busy_s",
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

    to: a server that all of them reach. requests: without a judge. truth: exact answers: k,
        accept_offsets, accept_ids and available of a `Judge`. source: source of the requests.
    settings: further arguments of `drive`. threads: per machine. longest_s: most seconds until the
        last answer.
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
        """The judge of the answers."""
        return Judge(*self.truth)

    def send(
        self, share: MachineShare, progress: Callable[[LoadControl], None] | None = None
    ) -> LoadPart:
        """Send a machine's share of the load."""
        outcome = drive(
            self.to,
            [replace(self.requests, judge=self.judge)],
            [self.source],
            threads=self.threads,
            share=share,
            progress=progress,
            **self.settings,
        )
        return pack_part(outcome)


@dataclass(frozen=True)
class Sent:
    """A load that machines have sent.

    parts: by machine, with instants of each machine's own clock. started_ns: when it began, by the
        clock of the machine with the store. error_us: time within which all machines began, as far
        as known from their clocks and starts. lost: what became of machines that have no part.
    """

    parts: Mapping[str, LoadPart]
    started_ns: int
    error_us: float
    lost: tuple[str, ...] = ()

    def outcome(self, judge: Judge) -> LoadOutcome:
        """The whole outcome, by the clock of the machine with the store.

        Raises:
            ValueError: there is no part.
        """
        return merge_parts(list(self.parts.values()), [judge], self.started_ns)


@dataclass(frozen=True)
class LoadPart:
    """The part of a load that one machine sent, by its own clock; can be pickled. classes: see
    `LoadRecord`, with packed recorders. fields: the other fields of `LoadOutcome`."""

    classes: Sequence[dict[str, Any]]
    fields: dict[str, Any]


def pack_part(outcome: LoadOutcome) -> LoadPart:
    """An outcome packed as a part."""
    classes: list[dict[str, Any]] = [
        {**record, "recorder": record["recorder"].pack(), "warmup": record["warmup"].pack()}
        for record in outcome["classes"]
    ]
    return LoadPart(classes, {name: value for name, value in outcome.items() if name != "classes"})


def merge_parts(
    parts: Sequence[LoadPart], judges: Sequence[Judge | None], started_ns: int
) -> LoadOutcome:
    """The outcome of a whole load, by one clock. `peak_in_flight` is the sum of the machines'
    peaks, which may have been at different instants.

    Args:
        parts: at least one. judges: judges of the classes, in order.
        started_ns: when all of them began, by that clock.

    Raises:
        ValueError: the parts are not of one load.
    """
    first = parts[0].fields
    behind_ns = [started_ns - part.fields["started_ns"] for part in parts]
    fields: dict[str, Any] = {name: sum(part.fields[name] for part in parts) for name in _SUMS}
    backlogs = [part.fields["backlog"] for part in parts]
    known = all(backlog is not None for backlog in backlogs)
    return {
        **fields,  # type: ignore[typeddict-item]
        "classes": [
            _class([part.classes[at] for part in parts], behind_ns, judge)
            for at, judge in enumerate(judges)
        ],
        "started_ns": started_ns,
        "ended_ns": max(
            part.fields["ended_ns"] + by_ns for part, by_ns in zip(parts, behind_ns, strict=True)
        ),
        "cancelled": any(part.fields["cancelled"] for part in parts),
        "duration_s": first["duration_s"],
        "backlog": [sum(quarter) for quarter in zip(*backlogs, strict=True)] if known else None,
    }


def _class(
    parts: Sequence[dict[str, Any]], behind_ns: Sequence[int], judge: Judge | None
) -> LoadRecord:
    """The merged record of one class. behind_ns: how far each part's clock is behind."""
    measured = [Recorder.unpack(part["recorder"], judge) for part in parts]
    for one, by_ns in zip(measured, behind_ns, strict=True):
        one.shift(by_ns)
    warmups = [Recorder.unpack(part["warmup"], judge) for part in parts]
    for one in warmups:  # machines warm up when they can: each counts from its own start
        one.shift(-(one.started_ns() or 0))

    def total(name: str) -> int:
        return sum(part[name] for part in parts)

    logs = [
        part["requests"] and _shift(part["requests"], by_ns)
        for part, by_ns in zip(parts, behind_ns, strict=True)
    ]

    return {
        "name": parts[0]["name"],
        "recorder": merge(measured),
        "warmup": merge(warmups),
        "lag": histogram_merge([part["lag"] for part in parts]),
        "issued": total("issued"),
        "in_flight": total("in_flight"),
        "rows": total("rows"),
        "answers": _join_logs([part["answers"] for part in parts]),
        "requests": _join_logs(logs),
    }


def _shift(requests: tuple[Any, ...], by_ns: int) -> tuple[Any, ...]:
    number, sent, done, succeeded = requests
    return number, sent + by_ns, done + by_ns, succeeded


def _join_logs(logs: Sequence[tuple[Any, ...] | None]) -> Any:
    """The columns of all logs joined, or None if one log was not kept."""
    kept = [log for log in logs if log is not None]
    if len(kept) < len(logs):
        return None
    return tuple(np.concatenate(columns) for columns in zip(*kept, strict=True))


def join_outcomes(
    outcomes: Sequence[LoadOutcome], recorder: Recorder, warmup: Recorder, started_ns: int
) -> LoadOutcome:
    """The outcome of a load of one class that was sent in turns, as if the turns had followed one
    another directly.

    Args:
        outcomes: at least one, in order. recorder: recorder of all of them, begun at `started_ns`.
    """
    fields: dict[str, Any] = {name: sum(one[name] for one in outcomes) for name in _SUMS}  # type: ignore[literal-required]
    length_ns = sum(one["ended_ns"] - one["started_ns"] for one in outcomes)
    recorder.finish(started_ns + length_ns)
    records = [one["classes"][0] for one in outcomes]
    backlogs = [one["backlog"] for one in outcomes]
    durations = [one["duration_s"] for one in outcomes]
    record: LoadRecord = {
        "name": records[0]["name"],
        "recorder": recorder,
        "warmup": warmup,
        "lag": histogram_merge([one["lag"] for one in records]),
        "issued": sum(one["issued"] for one in records),
        "in_flight": sum(one["in_flight"] for one in records),
        "rows": sum(one["rows"] for one in records),
        "answers": None,
        "requests": None,
    }
    known = [backlog for backlog in backlogs if backlog is not None]
    return {
        **fields,  # type: ignore[typeddict-item]
        "classes": [record],
        "peak_in_flight": max(one["peak_in_flight"] for one in outcomes),
        "started_ns": started_ns,
        "ended_ns": started_ns + length_ns,
        "cancelled": any(one["cancelled"] for one in outcomes),
        "duration_s": sum(one or 0.0 for one in durations),
        # A queue that grows in every turn is as overloaded as one that grows on.
        "backlog": [sum(quarter) for quarter in zip(*known, strict=True)] if known else None,
    }
