"""Observers of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from vectrial.model.phase import Live
from vectrial.plan.model import Job, PlannedTrial
from vectrial.results.writer import TrialRecord
from vectrial.run.redact import Secrecy
from vectrial.worker.messages import Progress


class Watcher(Protocol):
    """Receives the events of a run, e.g. a terminal view."""

    def job(self, job: Job, number: int, of: int) -> None:
        """A job begins."""

    def progress(self, progress: Progress) -> None:
        """Progress of the current trial."""

    def live(self, live: Live) -> None:
        """State of a long phase, once a second."""

    def started(self, trial: PlannedTrial) -> None:
        """A trial begins."""

    def finished(self, record: TrialRecord) -> None:
        """Called when a trial has ended and is written."""

    def note(self, text: str) -> None:
        """A message."""


class RedactingWatcher(Watcher):
    """Removes secrets from texts for another watcher; records already contain none."""

    def __init__(self, watcher: Watcher, secrecy: Secrecy) -> None:
        self._watcher, self._secrecy = watcher, secrecy

    def job(self, job: Job, number: int, of: int) -> None:
        self._watcher.job(job, number, of)

    def progress(self, progress: Progress) -> None:
        self._watcher.progress(replace(progress, what=self._secrecy.clean_text(progress.what)))

    def live(self, live: Live) -> None:
        self._watcher.live(live)

    def started(self, trial: PlannedTrial) -> None:
        self._watcher.started(trial)

    def finished(self, record: TrialRecord) -> None:
        self._watcher.finished(record)

    def note(self, text: str) -> None:
        self._watcher.note(self._secrecy.clean_text(text))
