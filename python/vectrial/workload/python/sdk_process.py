"""Processes of the sdk lane: started together, waited for, and never left behind."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from time import perf_counter_ns
from typing import TypeVar

from vectrial._engine import Recorder
from vectrial.datasets import library
from vectrial.engine.recorders import judge_of, merge
from vectrial.model.capabilities import Durability, Index
from vectrial.model.context import Context
from vectrial.model.dataset import Truth
from vectrial.model.errors import StoreError
from vectrial.model.existing import Existing
from vectrial.model.progress import Progress
from vectrial.model.schema import Schema
from vectrial.model.store import Address, Store
from vectrial.stores import registry
from vectrial.stores.attached import keys_of, open_existing
from vectrial.util.children import program
from vectrial.workload.answer_log import AnswerLog, PackedPhaseAnswers, PhaseAnswers
from vectrial.workload.ndcg import Gains
from vectrial.workload.python.client_pool import ClientPool

T = TypeVar("T")

#: Time from the last process that is ready to the common start.
_LEAD_NS = 20_000_000
_POLL_S = 0.2


@dataclass(frozen=True)
class Opening:
    """Instructions for another process to open a store that was created and loaded, or a collection
    that somebody else made.

    store: "module:Class". existing: the collection that somebody else made; dataset: name of the
        dataset with its rows.
    """

    store: str
    location: Path
    address: Address | None
    schema: Schema
    index: Index
    durability: Durability | None
    existing: Existing | None = None
    dataset: str = ""

    def open(self, client: int = 0) -> Store:
        """Open the store. In a cluster, clients open the nodes in turn by their number, or all the
        first node if it alone takes writes."""
        kind, at = registry.resolve(self.store), self.address
        if at is not None and not kind.capabilities.primary:
            at = at.rotated(client)
        if self.existing is not None:
            assert at is not None, "it is in a server"
            keys = keys_of(library.load(self.dataset))
            return open_existing(
                kind, self.location, at, self.existing, self.schema, self.index, keys
            )
        store = self._make_store(at)
        store.open(self.schema, self.index)
        return store

    def create(self) -> Store:
        """Create the store, which does not exist yet."""
        store = self._make_store(self.address)
        store.create(self.schema, self.index)
        return store

    def _make_store(self, address: Address | None) -> Store:
        kind = registry.resolve(self.store)
        store = kind(self.location) if address is None else kind(self.location, address)
        store.durability = self.durability
        return store


def opening_of(context: Context, store: Store | None = None) -> Opening:
    """Opening by which another process opens the context's store, or a second store."""
    store = context.store if store is None else store
    return Opening(
        store=registry.reference(type(store)),
        location=store.location,
        address=context.address,
        schema=context.schema,
        index=context.index,
        durability=store.durability,
        existing=context.existing,
        dataset=context.dataset.name,
    )


@dataclass(frozen=True)
class Ready:
    """The message that every client of the process is connected and warm."""


@dataclass(frozen=True)
class Done:
    """A process's packed record, and further counts. rows: rows inserted. gains: gains of its
    answers, if they are graded. answers: what else is known of its answers."""

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
    """The message that the process could not measure, with the reason."""

    reason: str


@contextmanager
def processes(shares: Sequence[object]) -> Iterator[list[Connection]]:
    """A process for each share, which it has received; none is left behind."""
    started: list[tuple[subprocess.Popen[bytes], Connection]] = []
    try:
        for _ in shares:
            ours, theirs = Pipe()
            with theirs:
                number = theirs.fileno()
                command = program(
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


def run_together(
    shares: Sequence[object],
    kind: type[T],
    progress: Progress,
    connecting: str,
    report: Callable[[int], None],
) -> tuple[int, list[T]]:
    """Have a process do each share, all from a common start once all are connected and warm.

    Args:
        kind: type of the result that each sends.
        connecting: text of the progress until all are ready. report: called later with the start.

    Returns:
        The start (`time.perf_counter_ns`), and the results in the order of the shares.

    Raises:
        StoreError: a process could not connect, or ended before its time.
    """
    with processes(shares) as pipes:
        for pipe in pipes:
            receive(pipe, Ready, lambda: progress(0, 1, connecting))
        # Late enough for every process to hear of it.
        started_ns = perf_counter_ns() + _LEAD_NS
        for pipe in pipes:
            pipe.send(started_ns)
        return started_ns, [receive(pipe, kind, lambda: report(started_ns)) for pipe in pipes]


def wait_for_start(pipe: Connection) -> int:
    """Report that this process is ready, and wait for the common start; returns its instant."""
    pipe.send(Ready())
    started_ns: int = pipe.recv()
    while (left_ns := started_ns - perf_counter_ns()) > 0:
        time.sleep(left_ns / 1e9)
    return started_ns


def receive(pipe: Connection, kind: type[T], report: Callable[[], None]) -> T:
    """The next message of a process, which must be of this type."""
    while not wait([pipe], _POLL_S):
        report()
    try:
        message = pipe.recv()
    except (EOFError, ConnectionResetError):
        message = Failed("it ended; the log of the measuring process says more")
    if isinstance(message, Failed):
        raise StoreError(f"a process of the Python client failed: {message.reason}")
    assert isinstance(message, kind)
    return message


def done_message(pool: ClientPool, cpu_ns: int) -> Done:
    """The result of this process's clients."""
    return Done(
        record=pool.merged_recorder().pack(),
        issued=sum(pool.issued),
        ended_ns=max(pool.ended),
        cpu_ns=cpu_ns - pool.phase_start.cpu_ns,
        warmed=sum(pool.warmed),
        warmup_errors=sum(pool.warmup_errors),
        gains=None if pool.scorer is None else pool.scorer.total(),
        answers=pool.answers().pack() if pool.logs_answers else None,
    )


def merge_recorders(results: Sequence[Done], truth: Truth) -> Recorder:
    """Combined record of all processes."""
    judge = judge_of(truth)
    return merge(Recorder.unpack(one.record, judge) for one in results)


def merge_answers(results: Sequence[Done], truth: Truth) -> PhaseAnswers:
    """The answers of all processes."""
    judge, logged = judge_of(truth), AnswerLog()
    packed = [one.answers for one in results if one.answers is not None]
    for one in packed:
        logged.extend(one.log)

    def unpack_recorders(records: Iterable[bytes]) -> Recorder:
        return merge([Recorder(judge), *(Recorder.unpack(one, judge) for one in records)])

    return PhaseAnswers(
        unpack_recorders(one.warmup for one in packed),
        unpack_recorders(one.first for one in packed),
        unpack_recorders(one.later for one in packed),
        logged,
    )
