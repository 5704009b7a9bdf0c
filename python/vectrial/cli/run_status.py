"""The view of a run that also writes the status file, for `vectrial serve`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from vectrial.cli.run_view import describe, phase_line
from vectrial.model.phase import Live
from vectrial.plan.model import Job, Plan, PlannedTrial
from vectrial.results.progress import STATUS, Status, write_status
from vectrial.results.writer import TrialRecord
from vectrial.run.measuring import View
from vectrial.worker import messages

#: Minimum seconds between two writes during a trial. Changes between trials are written at once,
#: because they may last for minutes, while a server starts or the client ceiling is measured.
EVERY_S = 1.0
#: Number of lines about trials in the file.
_RECENT = 30


class StatusFileView:
    """A view that forwards to another one and writes the status file."""

    def __init__(self, plan: Plan, view: View, folder: Path, before: int = 0) -> None:
        """before: trials of the plan that an earlier process measured."""
        self._view, self._folder = view, folder
        now = time.time()
        trials = len(plan.trials) + len(plan.refusals)  # refused ones end at once, as skipped
        self._status = Status(pid=os.getpid(), began=now, updated=now, trials=trials, done=before)
        self._written, self._unwritable = 0.0, False

    def __enter__(self) -> Self:
        self._view.__enter__()
        self._update(at_once=True, what="preparing")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._update(at_once=True, ended=True, live="", what="")
        finally:
            self._view.__exit__(kind, error, trace)

    def fetching(self, done: float, of: float, what: str) -> None:
        self._view.fetching(done, of, what)
        self._update(what=what, part_done=done, part_of=of)

    def job(self, job: Job, number: int, of: int) -> None:
        self._view.job(job, number, of)
        self._update(
            at_once=True, job=job.label, number=number, jobs=of, what="", live="",
            part_done=0, part_of=0,
        )  # fmt: skip

    def started(self, trial: PlannedTrial) -> None:
        self._view.started(trial)
        self._update(what=trial.row.experiment, live="", part_done=0, part_of=0)

    def progress(self, progress: messages.Progress) -> None:
        self._view.progress(progress)
        self._update(what=progress.what, part_done=progress.done, part_of=progress.total)

    def live(self, live: Live) -> None:
        self._view.live(live)
        self._update(live=phase_line(live))

    def finished(self, record: TrialRecord) -> None:
        self._view.finished(record)
        status = self._status
        self._update(
            at_once=True,
            done=status.done + 1,
            counts={**status.counts, record.status: status.counts.get(record.status, 0) + 1},
            live="",
            recent=(*status.recent, describe(record))[-_RECENT:],
        )

    def note(self, text: str) -> None:
        self._view.note(text)
        self._update(at_once=True, recent=(*self._status.recent, text)[-_RECENT:])

    def _update(self, *, at_once: bool = False, **changed: object) -> None:
        self._status = self._status.model_copy(update={**changed, "updated": time.time()})
        if at_once or time.monotonic() - self._written >= EVERY_S:
            self._written = time.monotonic()
            try:
                write_status(self._folder, self._status)
            except OSError as error:  # the run itself goes on
                if not self._unwritable:
                    self._view.note(f"{STATUS} cannot be written: {error.strerror or error}")
                self._unwritable = True
