"""What a machine of a cluster reports of the job that it measures."""

from __future__ import annotations

import queue
from dataclasses import dataclass

from vectrial.model.errors import VectrialError
from vectrial.model.phase import Live
from vectrial.plan.model import Job, PlannedTrial
from vectrial.results.writer import TrialRecord
from vectrial.run.watcher import Watcher
from vectrial.worker.messages import Progress


@dataclass(frozen=True)
class NoteLine:
    """A line to show."""

    text: str


@dataclass(frozen=True)
class Began:
    """The job's measurement begins."""


@dataclass(frozen=True)
class TrialBegan:
    """A trial of the job begins."""

    trial: PlannedTrial


@dataclass(frozen=True)
class Recorded:
    """A trial has ended."""

    record: TrialRecord


@dataclass(frozen=True)
class LogFile:
    """A log of the job."""

    name: str
    content: bytes


@dataclass(frozen=True)
class JobEnded:
    """The job has ended; this is its last event. fault: the reason why its other trials could not
    be measured."""

    fault: VectrialError | None = None


class Reporter(Watcher):
    """Puts the events of a job into a queue."""

    def __init__(self, events: queue.Queue[object]) -> None:
        self._events = events

    def job(self, job: Job, number: int, of: int) -> None:
        """Do nothing: the run, which knows the job's number, shows the job at `Began`."""

    def progress(self, progress: Progress) -> None:
        self._events.put(progress)

    def live(self, live: Live) -> None:
        self._events.put(live)

    def started(self, trial: PlannedTrial) -> None:
        self._events.put(TrialBegan(trial))

    def finished(self, record: TrialRecord) -> None:
        """Report the trial as `Recorded`, with its secrets removed."""

    def note(self, text: str) -> None:
        self._events.put(NoteLine(text))
