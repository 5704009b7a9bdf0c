"""Turns of several jobs on this machine: in each round every load sends for a moment.

Whatever the machine is busy with meanwhile, it is for all of them in the same second.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import psutil

from vectrial.model.phase import Slice, Turn, TurnTime
from vectrial.run.slice_lengths import LEAST_ROUNDS, SliceLength, first_length, fit_length
from vectrial.run.watcher import Watcher
from vectrial.worker.messages import Progress, TurnResult

#: Rounds at most.
MOST_ROUNDS = 2_000
#: Rounds by which the length of slices is found, and most attempts to find it. If it is known from
#: an earlier load, one round warms up.
_TRIALS, _TRIES = 5, 4
#: Share of the machine's memory that stays free beside three jobs or more. Two have all of it,
#: since a job alone has nobody to take turns with.
_SPARE = 0.1
#: Most jobs together: each has a process or a server of its own.
_MOST_TOGETHER = 12
#: Seconds between two reports of progress.
_REPORT_S = 0.5


class TurnProcess(Protocol):
    """The measuring process of a job, as turns need it."""

    def turn(self, key: str, turn: Turn) -> TurnResult | None:
        """Have a load take a turn; None if the process has ended."""
        ...


@dataclass(frozen=True)
class WaitingJob:
    """A job whose loads wait for turns.

    times: how long each load takes turns, by the key of its trial. alike: by the same key, the
        identity that a load shares with its other repeats, whose slices are as long.
    """

    label: str
    process: TurnProcess
    times: Mapping[str, TurnTime]
    alike: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TurnJob:
    """A job that may be measured in turns. steps: measures it, and yields whenever its loads wait.
    need_bytes: planned memory. store: name under which the memory in use is remembered for later
    jobs. fits: whether there is time for the job, asked when it would begin. ready: called when its
    loads wait for their first turns, or when it has ended without any."""

    store: str
    steps: Generator[WaitingJob]
    need_bytes: int
    fits: Callable[[], bool] = lambda: True
    ready: Callable[[], None] = lambda: None


class TurnGroup:
    """Measures together as many jobs as fit into the machine's memory, up to twelve. If two fit,
    the first stays for later jobs, so that every job has taken turns with it.

    Args:
        available_bytes: returns the memory available now.
    """

    def __init__(
        self,
        watcher: Watcher,
        available_bytes: Callable[[], int] = lambda: psutil.virtual_memory().available,
    ) -> None:
        self._watcher, self._available_bytes = watcher, available_bytes
        self._spare_bytes = int(_SPARE * psutil.virtual_memory().total)
        self._needed: dict[str, int] = {}
        #: Lengths of slices that were found, by what loads have in common.
        self.lengths: dict[str, SliceLength] = {}
        #: Of the first jobs of this run, and of each group that follows them; rounds so far.
        self.session, self.rounds = 0, 0

    def run(self, jobs: Sequence[TurnJob]) -> None:
        """Repeatedly measure each job as far as it can go alone, and then their loads in turns,
        until all jobs have ended."""
        left, open_ = list(jobs), list[tuple[TurnJob, WaitingJob]]()
        # No two groups have the same, in whatever run or resumption of it.
        self.session, self.rounds = secrets.randbits(40), 0
        with ExitStack() as stack:
            for job in jobs:
                stack.callback(job.steps.close)
            while left or open_:
                while left and self._fits(left[0], len(open_)):
                    job = left.pop(0)
                    if job.fits():
                        open_ += self._advance([job])
                        job.ready()
                if not open_:
                    continue
                rounds = Rounds([contender for _, contender in open_], self._watcher, self)
                rounds.run()
                is_reference = left and len(open_) > 1 and rounds.has_load(open_[0][1])
                staying = open_[:1] if is_reference else []
                open_ = staying + self._advance([job for job, _ in open_[len(staying) :]])

    def _fits(self, job: TurnJob, beside: int) -> bool:
        """True if one more job may open beside so many."""
        if not beside:
            return True
        if beside >= _MOST_TOGETHER:
            self._watcher.note(f"{job.store}: it follows {beside} others, which are enough at once")
            return False
        needed = self._needed.get(job.store, job.need_bytes)
        spare = self._spare_bytes if beside > 1 else 0
        fits = needed + spare <= self._available_bytes()
        if not fits:
            self._watcher.note(f"{job.store}: no memory beside the others; it follows them")
        return fits

    def _advance(self, jobs: Sequence[TurnJob]) -> list[tuple[TurnJob, WaitingJob]]:
        found = []
        for job in jobs:
            before = self._available_bytes()
            contender = next(job.steps, None)
            if contender is not None:
                used = before - self._available_bytes()
                self._needed[job.store] = max(used, self._needed.get(job.store, 0))
                found.append((job, contender))
        return found


@dataclass
class _Arm:
    """A load that takes turns."""

    contender: WaitingJob
    key: str
    time: TurnTime
    length: SliceLength
    known: bool
    alive: bool = True
    tried: list[Slice] = field(default_factory=list)

    def take(self, number: int, place: int, session: int) -> Slice | None:
        """Take a turn in a round; None if the load has broken down."""
        whole_ns, head_ns = (round(s * 1e9) for s in (self.length.whole_s, self.length.head_s))
        turn = Turn(number, place, whole_ns, session, head_ns)
        taken = self.contender.process.turn(self.key, turn)
        if taken is None or taken.slice is None:
            self.alive = False
            return None
        return taken.slice

    def fit(self) -> None:
        """Set the length of its slices to what the turns have shown to be necessary."""
        if not self.known:
            self.length, self.known = fit_length(self.length, self.time, self.tried)
        self.tried = []


class Rounds:
    """The rounds of loads that wait for turns. together: counts the rounds, so that a load that
    stays for later jobs takes no round twice."""

    def __init__(
        self, contenders: Sequence[WaitingJob], watcher: Watcher, together: TurnGroup
    ) -> None:
        self._watcher, self._together = watcher, together
        self._arms = [
            self._arm(contender, key, one)
            for contender in contenders
            for key, one in contender.times.items()
        ]
        self._orders = orders(len(self._arms), np.random.default_rng(together.session))
        self._reported = 0.0

    def _arm(self, contender: WaitingJob, key: str, time_: TurnTime) -> _Arm:
        found = self._together.lengths.get(contender.alike.get(key, ""))
        return _Arm(contender, key, time_, found or first_length(time_), found is not None)

    def run(self) -> None:
        """Find the length of slices, then measure."""
        self._find_lengths()
        alive = [arm for arm in self._arms if arm.alive]
        round_s = sum(arm.length.whole_s for arm in alive)
        wanted = math.ceil(sum(arm.time.seconds for arm in alive) / round_s) if alive else 0
        count = max(LEAST_ROUNDS, min(MOST_ROUNDS, wanted)) if alive else 0
        for number in range(count):
            what = f"in turns with {len(self._arms):,} loads"
            self._round(self._together.rounds, what, number / count)
            self._together.rounds += 1

    def _find_lengths(self) -> None:
        for _ in range(_TRIES):
            known = all(arm.known for arm in self._arms if arm.alive)
            for number in range(1 if known else _TRIALS):
                self._round(-1 - number, "finding the length of slices")
            for arm in self._arms:
                arm.fit()
            if known or all(arm.known for arm in self._arms if arm.alive):
                break
        for arm in self._arms:
            if arm.alive and (alike := arm.contender.alike.get(arm.key)):
                self._together.lengths[alike] = arm.length

    def has_load(self, contender: WaitingJob) -> bool:
        """True if a load of this job still takes turns."""
        return any(arm.alive for arm in self._arms if arm.contender is contender)

    def _round(self, number: int, what: str, share: float = 0.0) -> None:
        """Have every live load take a turn. Turns with a negative number do not count."""
        for place, at in enumerate(next(self._orders)):
            arm = self._arms[at]
            session = self._together.session
            taken = arm.take(number, place, session) if arm.alive else None
            if taken is not None and number < 0:
                arm.tried.append(taken)
            if time.monotonic() - self._reported >= _REPORT_S:
                self._reported = time.monotonic()
                self._watcher.progress(Progress(share, 1.0, what))


def orders(count: int, rng: np.random.Generator) -> Iterator[list[int]]:
    """Endless orders for `count` loads. In `count` consecutive orders each load has every place
    once, and (in twice as many if odd) follows every other equally often: a load that follows one
    of its own store finds warmer caches. Williams (1949), drawn anew each time."""
    steps = np.array([(-1) ** at * (at // 2) for at in range(1, count + 1)])
    mirrored = [False, True] if count % 2 else [False]
    while True:
        names = rng.permutation(count)
        for mirror in mirrored:
            for shift in rng.permutation(count).tolist():
                order = names[(steps + shift) % count]
                yield (order[::-1] if mirror else order).tolist()
