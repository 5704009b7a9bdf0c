"""Turns of several jobs on this machine: in each round every load sends for a moment.

Whatever the machine is busy with meanwhile, it is for all of them in the same second.
"""

from __future__ import annotations

import math
import secrets
import statistics
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import psutil

from vectrial.model.slices import HEAD_SHARE, Slice, Turn, TurnTime
from vectrial.run.watcher import Watcher
from vectrial.worker.messages import Progress, TurnResult

#: The longest slice.
LONGEST_S = 2.0
#: Requests that a slice has, if so many rounds are left in the time that there is.
REQUESTS, ROUNDS = 200, 100
#: Rounds at least, whatever the time, and at most.
LEAST_ROUNDS, MOST_ROUNDS = 20, 2_000
#: Handing over costs at most this share of a slice; else slices are made longer, by at most this
#: factor at once. Lengths that differ by less than the other one are alike.
HANDING_OVER, _GROWTH, _ALIKE = 0.01, 4.0, 1.2
#: Rounds by which the length of slices is found, and how often it is looked for.
_TRIALS, _TRIES = 5, 3
#: So many jobs are measured together whatever memory there is; else this share of it stays free.
_LEAST_TOGETHER, _SPARE = 2, 0.1
#: Seconds between two reports of progress.
_REPORT_S = 0.5


class Process(Protocol):
    """The measuring process of a job, as turns need it."""

    def turn(self, key: str, turn: Turn) -> TurnResult | None:
        """Have a load take a turn; None if the process has ended."""
        ...


@dataclass(frozen=True)
class Contender:
    """A job whose loads wait for turns. times: how long each takes turns, by the key of its
    trial."""

    label: str
    process: Process
    times: Mapping[str, TurnTime]


@dataclass(frozen=True)
class Candidate:
    """A job that may be measured in turns. steps: measures it, and stops whenever its loads wait.
    need_bytes: of memory, as far as the plan can tell; store: by which it is known better once one
    was measured."""

    store: str
    steps: Generator[Contender]
    need_bytes: int


class Together:
    """Measures jobs together, as many as fit into the machine's memory; the first of them stays for
    those that come later, so that every job has taken turns with it.

    Args:
        available_bytes: of memory, now.
    """

    def __init__(
        self,
        watcher: Watcher,
        available_bytes: Callable[[], int] = lambda: psutil.virtual_memory().available,
    ) -> None:
        self._watcher, self._available_bytes = watcher, available_bytes
        self._spare_bytes = int(_SPARE * psutil.virtual_memory().total)
        self._needed: dict[str, int] = {}
        #: Of the first jobs of this run, and of each group that follows them; rounds so far.
        self.session, self.rounds = 0, 0

    def run(self, jobs: Sequence[Candidate]) -> None:
        """Measure each job as far as it goes alone, and then their loads in turns; again and again
        until all jobs have ended."""
        left, open_ = list(jobs), list[tuple[Candidate, Contender]]()
        # No two groups have the same, in whatever run or resumption of it.
        self.session, self.rounds = secrets.randbits(40), 0
        with ExitStack() as stack:
            for job in jobs:
                stack.callback(job.steps.close)
            while left or open_:
                while left and (len(open_) < _LEAST_TOGETHER or self._fits(left[0])):
                    open_ += self._advanced([left.pop(0)])
                if not open_:
                    continue
                rounds = Rounds([contender for _, contender in open_], self._watcher, self)
                rounds.run()
                staying = open_[:1] if left and rounds.has(open_[0][1]) else []
                open_ = staying + self._advanced([job for job, _ in open_[len(staying) :]])

    def _fits(self, job: Candidate) -> bool:
        """Whether there is memory for one more."""
        needed = self._needed.get(job.store, job.need_bytes)
        fits = needed + self._spare_bytes <= self._available_bytes()
        if not fits:
            self._watcher.note(f"{job.store}: no memory beside the others; it follows them")
        return fits

    def _advanced(self, jobs: Sequence[Candidate]) -> list[tuple[Candidate, Contender]]:
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

    contender: Contender
    key: str
    time: TurnTime
    length_s: float
    alive: bool = True
    trial: list[Slice] = field(default_factory=list)

    def take(self, number: int, place: int, session: int) -> Slice | None:
        """A turn of a round; None where the load has broken down."""
        turn = Turn(number, place, round(self.length_s * 1e9), session)
        taken = self.contender.process.turn(self.key, turn)
        if taken is None or taken.slice is None:
            self.alive = False
            return None
        return taken.slice

    def fit(self) -> bool:
        """Make its slices as long as trial rounds have shown that they have to be. False if they
        were."""
        rates = [one.rate for one in self.trial if one.rate]
        warmths = [one.warmth for one in self.trial if one.warmth is not None]
        self.trial = []
        if not rates:
            return False
        before = self.length_s
        requests_s = REQUESTS / statistics.median(rates) / (1 - HEAD_SHARE)
        wanted_s = min(requests_s, self.time.seconds / ROUNDS)
        # What is lost in a head is lost in a slice of any length: of a longer one it is less.
        lost = HEAD_SHARE * (1 - statistics.median(warmths)) if warmths else 0.0
        if lost > HANDING_OVER:
            longer_s = before * min(_GROWTH, lost / HANDING_OVER)
            wanted_s = max(wanted_s, min(longer_s, self.time.seconds / LEAST_ROUNDS))
        self.length_s = min(LONGEST_S, max(self.time.slice_s, before, wanted_s))
        return self.length_s > _ALIKE * before

    @property
    def rounds(self) -> int:
        """Rounds that its time suffices for."""
        return math.ceil(self.time.seconds / self.length_s)


class Rounds:
    """The rounds of loads that wait for turns. together: whose rounds they are, which are counted
    there: a load that stays for others takes no round twice."""

    def __init__(
        self, contenders: Sequence[Contender], watcher: Watcher, together: Together
    ) -> None:
        self._watcher, self._together = watcher, together
        self._arms = [
            _Arm(contender, key, one, one.slice_s)
            for contender in contenders
            for key, one in contender.times.items()
        ]
        self._orders = orders(len(self._arms), np.random.default_rng(len(self._arms)))
        self._reported = 0.0

    def run(self) -> None:
        """Find the length of slices, and measure."""
        for _ in range(_TRIES):
            for number in range(_TRIALS):
                self._round(-1 - number, "finding the length of slices")
            fitted = [arm.fit() for arm in self._arms if arm.alive]
            if not any(fitted):
                break
        wanted = max((arm.rounds for arm in self._arms if arm.alive), default=0)
        count = max(LEAST_ROUNDS, min(MOST_ROUNDS, wanted))
        for number in range(count):
            what = f"in turns with {len(self._arms):,} loads"
            self._round(self._together.rounds, what, number / count)
            self._together.rounds += 1

    def has(self, contender: Contender) -> bool:
        """Whether a load of a job still takes turns."""
        return any(arm.alive for arm in self._arms if arm.contender is contender)

    def _round(self, number: int, what: str, share: float = 0.0) -> None:
        """A turn of every load that is alive. Before the first round none counts."""
        for place, at in enumerate(next(self._orders)):
            arm = self._arms[at]
            session = self._together.session
            taken = arm.take(number, place, session) if arm.alive else None
            if taken is not None and number < 0:
                arm.trial.append(taken)
            if time.monotonic() - self._reported >= _REPORT_S:
                self._reported = time.monotonic()
                self._watcher.progress(Progress(share, 1.0, what))


def orders(count: int, rng: np.random.Generator) -> Iterator[list[int]]:
    """Orders of so many loads, without end. In `count` of them in a row each load has every place
    once; which one comes after which is drawn anew then."""
    while True:
        base = rng.permutation(count)
        for shift in rng.permutation(count).tolist():
            yield np.roll(base, shift).tolist()
