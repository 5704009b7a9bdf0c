"""Processes of the sdk lane: started, told what to do, waited for, and never left behind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from time import perf_counter_ns
from typing import TypeVar

from vectrial._engine import Judge, Recorder
from vectrial.model.dataset import Truth
from vectrial.model.errors import StoreError
from vectrial.model.store import Address, Durability, Index, Schema, Store
from vectrial.stores import registry
from vectrial.util.children import python
from vectrial.workload.answer_log import AnswerLog, PackedPhaseAnswers, PhaseAnswers
from vectrial.workload.ndcg import Gains
from vectrial.workload.python.closed_loop import ClientPool

T = TypeVar("T")

#: From the last process that is ready to the common start.
_LEAD_NS = 20_000_000
_POLL_S = 0.2


@dataclass(frozen=True)
class Opening:
    """How another process opens a store that exists. store: "module:Class"."""

    store: str
    location: Path
    address: Address | None
    schema: Schema
    index: Index
    durability: Durability | None

    def open(self) -> Store:
        """The store, opened."""
        kind = registry.resolve(self.store)
        store = kind(self.location, self.address) if self.address else kind(self.location)
        store.durability = self.durability
        store.open(self.schema, self.index)
        return store


@dataclass(frozen=True)
class Ready:
    """Every client of the process is connected and warm."""


@dataclass(frozen=True)
class Done:
    """A process's record, packed, and what was counted beside it. rows: inserted. gains: of its
    answers, where they are graded. answers: what else is known of them."""

    record: bytes
    issued: int
    ended_ns: int
    cpu_ns: int
    warmed: int = 0
    warmup_errors: int = 0
    rows: int = 0
    gains: Gains | None = None
    answers: PackedPhaseAnswers | None = None


@dataclass(frozen=True)
class Failed:
    """The process could not measure, and why."""

    reason: str


def common_start_ns() -> int:
    """An instant soon enough, and late enough for every process to hear of it."""
    return perf_counter_ns() + _LEAD_NS


@contextmanager
def processes(shares: Sequence[object]) -> Iterator[list[Connection]]:
    """A process for each share, told what to do; none is left behind."""
    started: list[tuple[subprocess.Popen[bytes], Connection]] = []
    try:
        for _ in shares:
            ours, theirs = Pipe()
            with theirs:
                number = theirs.fileno()
                command = python(
                    "vectrial.workload.python.sdk_client", str(number), str(os.getpid())
                )
                process = subprocess.Popen(command, pass_fds=(number,), stdin=subprocess.DEVNULL)
            started.append((process, ours))
        for share, (_, pipe) in zip(shares, started, strict=True):
            pipe.send(share)
        yield [pipe for _, pipe in started]
    finally:
        for process, pipe in started:
            pipe.close()
            process.kill()
            process.wait()


def expect(pipe: Connection, kind: type[T], report: Callable[[], None]) -> T:
    """The next thing a process says, which is of that kind."""
    while not wait([pipe], _POLL_S):
        report()
    try:
        told = pipe.recv()
    except (EOFError, ConnectionResetError):
        told = Failed("it ended; the log of the measuring process says more")
    if isinstance(told, Failed):
        raise StoreError(f"a process of the Python client failed: {told.reason}")
    assert isinstance(told, kind)
    return told


def done(pool: ClientPool, cpu_ns: int) -> Done:
    """In a process: what its clients did, when they are done."""
    return Done(
        record=pool.merged().pack(),
        issued=sum(pool.issued),
        ended_ns=max(pool.ended),
        cpu_ns=cpu_ns - pool.phase_start.cpu_ns,
        warmed=sum(pool.warmed),
        warmup_errors=sum(pool.warmup_errors),
        gains=None if pool.scorer is None else pool.scorer.all(),
        answers=pool.answers().pack() if pool.logs_answers else None,
    )


def merged(told: Sequence[Done], truth: Truth) -> Recorder:
    """One record of what all processes did."""
    judge = Judge(truth.k, truth.accept_offsets, truth.accept_ids, truth.available)
    whole, *others = [Recorder.unpack(one.record, judge) for one in told]
    for other in others:
        whole.merge(other)
    return whole


def merged_answers(told: Sequence[Done], truth: Truth) -> PhaseAnswers:
    """What is known of the answers of all processes."""
    judge = Judge(truth.k, truth.accept_offsets, truth.accept_ids, truth.available)
    whole = PhaseAnswers(Recorder(judge), Recorder(judge), Recorder(judge), AnswerLog())
    for one in told:
        if one.answers is not None:
            whole.warmup.merge(Recorder.unpack(one.answers.warmup, judge))
            whole.first.merge(Recorder.unpack(one.answers.first, judge))
            whole.later.merge(Recorder.unpack(one.answers.later, judge))
            whole.log.extend(one.answers.log)
    return whole
