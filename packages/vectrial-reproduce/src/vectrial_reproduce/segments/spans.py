"""Spans of work on segments: who did what from when to when, and what that says of a pipeline."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from time import perf_counter_ns


class Stage(StrEnum):
    """Stages of a segment, in order."""

    EMBED = "embed"  # vectors are made of texts
    SEGMENT = "segment"  # rows are cut from the dataset and encoded
    PUT = "put"
    IMPORT = "import"  # a server reads segments and writes files of its own
    GET = "get"
    CHECK = "check"  # the checksum of what was got
    BUILD = "build"
    WRITE_BACK = "write_back"
    LOAD = "load"  # an index is got and opened


@dataclass(frozen=True)
class Span:
    """A step of a segment.

    worker: number of the thread that ran it. started_ns, ended_ns: `perf_counter_ns`.
    size_bytes: bytes moved or encoded; for a build, the segment's size.
    cpu_s: processor time of the thread itself, without threads of a library.
    """

    stage: Stage
    segment: int
    worker: int
    started_ns: int
    ended_ns: int
    size_bytes: int = 0
    cpu_s: float = 0.0

    @property
    def seconds(self) -> float:
        """Wall-clock time of the span."""
        return (self.ended_ns - self.started_ns) / 1e9


class Spans:
    """Spans of several threads, in the order in which they ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[Span] = []

    @contextmanager
    def timed(self, stage: Stage, segment: int, worker: int) -> Iterator[SpanBytes]:
        """Record the block as a span, unless it raises. The block sets the number of bytes that it
        moved."""
        sized, started, cpu = SpanBytes(), perf_counter_ns(), time.thread_time()
        yield sized
        ended, used = perf_counter_ns(), time.thread_time() - cpu
        span = Span(stage, segment, worker, started, ended, sized.size_bytes, used)
        with self._lock:
            self._all.append(span)

    def add(self, stage: Stage, segment: int, started_ns: int, ended_ns: int) -> None:
        """Record a step that ran elsewhere."""
        with self._lock:
            self._all.append(Span(stage, segment, 0, started_ns, ended_ns))

    @property
    def all(self) -> tuple[Span, ...]:
        """Spans that have ended."""
        with self._lock:
            return tuple(self._all)

    def select(self, *stages: Stage) -> list[Span]:
        """Spans of the given stages."""
        return [span for span in self.all if span.stage in stages]


@dataclass
class SpanBytes:
    """Bytes of a span in progress."""

    size_bytes: int = 0


def sum_s(spans: Iterable[Span]) -> float:
    """Sum of the seconds of all spans, as published reports print it. It exceeds the wall-clock
    time if several spans run at once."""
    return sum(span.seconds for span in spans)


def wall_s(spans: Iterable[Span]) -> float:
    """Seconds in which at least one span was running."""
    return _wall_ns(spans) / 1e9


def _wall_ns(spans: Iterable[Span]) -> int:
    total, until = 0, None
    for span in sorted(spans, key=lambda one: one.started_ns):
        if until is None or span.started_ns > until:
            total += span.ended_ns - span.started_ns
            until = span.ended_ns
        elif span.ended_ns > until:
            total += span.ended_ns - until
            until = span.ended_ns
    return total


def length_s(spans: Sequence[Span]) -> float:
    """Seconds from the first start to the last end; 0 without spans."""
    if not spans:
        return 0.0
    return (max(s.ended_ns for s in spans) - min(s.started_ns for s in spans)) / 1e9


def overlapped_share(spans: Sequence[Span], stage: Stage) -> float | None:
    """Share of a stage's time in which another stage was running as well; None if it took no
    time."""
    own = [span for span in spans if span.stage is stage]
    others = [span for span in spans if span.stage is not stage]
    alone = _wall_ns(own)
    if not alone:
        return None
    return (alone + _wall_ns(others) - _wall_ns([*own, *others])) / alone


def critical_path(spans: Sequence[Span]) -> dict[Stage, float]:
    """Seconds of each stage on the critical path.

    The path goes back from the span that ended last to the one it waited for: among spans of the
    same segment or thread, the last to end before it began. A gap between the two counts for the
    later span.
    """
    left = sorted(spans, key=lambda one: (one.ended_ns, one.started_ns))
    path: dict[Stage, float] = {}
    while left:
        current = left.pop()
        while left and not _may_precede(left[-1], current):
            left.pop()
        began = left[-1].ended_ns if left else current.started_ns
        path[current.stage] = path.get(current.stage, 0.0) + (current.ended_ns - began) / 1e9
    return path


def _may_precede(span: Span, later: Span) -> bool:
    """True if `later` may have waited for the end of `span`."""
    shared = span.segment == later.segment or span.worker == later.worker
    return shared and span.ended_ns <= later.started_ns
