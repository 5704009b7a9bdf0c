"""Runs whose jobs are measured in this process: everything that a run does, but for the process
boundary, which costs seconds of processor time for each job.

The limits of a trial's time and memory, servers, and the deaths of a process need a real one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from vectrial.model.dataset import Dataset
from vectrial.model.phase import Live, Phase, Role, Turn
from vectrial.model.placement import Certificate
from vectrial.plan.model import Job
from vectrial.results.writer import TrialRecord
from vectrial.run import job as jobs
from vectrial.run.process import WORK, data_of, spec_of
from vectrial.run.redact import Secrecy
from vectrial.run.runner import Conditions
from vectrial.run.watcher import Watcher
from vectrial.suite.model import Rules, Suite
from vectrial.worker import worker
from vectrial.worker.messages import (
    Ack,
    Finished,
    GiveTurn,
    JobSpec,
    NoMoreTurns,
    Progress,
    TrialEnded,
    TrialStarted,
    TurnResult,
    Waiting,
)


def measure_here(spec: JobSpec, pipe: Any, dataset: Dataset) -> None:
    """What a measuring process does, in this one, which reads truths by itself."""
    worker._Measurement(spec, pipe, dataset).run()


#: Turns of a job that is alone.
ROUNDS, TURN_NS = 25, 5_000_000


class InProcess:
    """In place of `vectrial.run.job.JobRunner`, with its arguments: measures jobs whose stores are
    libraries by the code of the measuring process, in this one."""

    def __init__(
        self,
        rules: Rules,
        folder: Path,
        watcher: Watcher,
        write: Callable[[TrialRecord], None],
        secrecy: Secrecy,
        *,
        allow_exposed: bool,
    ) -> None:
        self.rules, self.folder, self.watcher, self.write = rules, folder, watcher, write

    def run(self, job: Job, begins: Callable[[], None] = lambda: None) -> None:
        """Measure a job, unless its store cannot run here."""
        lacks = jobs._prepare(job, None, self.watcher).lacks
        if lacks:
            for trial in job.trials:
                self.write(TrialRecord(trial.row, "skipped", lacks))
            return
        begins()
        self.measure(job)

    def run_together(
        self,
        jobs: Sequence[tuple[Job, Callable[[], None]]],
        fits: Callable[[Job], bool] = lambda job: True,
        ready: Callable[[Job], None] = lambda job: None,
    ) -> None:
        """Measure jobs one after the other: turns are those of each alone."""
        for job, begins in jobs:
            if fits(job):
                self.run(job, begins)
                ready(job)

    def measure(self, job: Job) -> None:
        """Measure a job and record its trials."""
        place = self.folder / WORK / "here"
        certificate = Certificate(self.rules.client_limits, self.rules.placement.resolved(), {})
        ear: Any = _Ear(job, self.watcher, self.write)
        try:
            spec = spec_of(job, self.rules, certificate, place, None)
            measure_here(spec, ear, data_of(job).load())
        finally:
            shutil.rmtree(place, ignore_errors=True)


#: Of searches that nobody made.
FIGURES = {"count": 1000.0, "errors": 0.0, "qps": 1000.0, "recall_mean": 1.0, "latency_p99": 900.0}


class Recorded(InProcess):
    """Records a phase of searches for each trial, and measures nothing: for what is planned, left
    out, gone on with, written and compared."""

    def measure(self, job: Job) -> None:
        for trial in job.trials:
            self.watcher.started(trial)
            params = {"k": self.rules.k, **trial.point}
            phase = Phase("search", 0, 10**9, params, dict(FIGURES), role=Role.SEARCH)
            own = trial.experiment.metrics
            self.write(TrialRecord(trial.row, "ok", phases=[phase], metrics=own))


def in_process(plan_jobs: Sequence[Job], suite: Suite, under: Conditions) -> None:
    """An `Executor`, by `InProcess`."""
    runner = InProcess(
        suite.rules, under.folder, under.watcher, under.write, under.secrecy, allow_exposed=False
    )
    for number, job in enumerate(plan_jobs, 1):
        runner.run(job, partial(under.watcher.job, job, number, len(plan_jobs)))


class _Ear:
    """The parent's end of the pipe."""

    def __init__(self, job: Job, watcher: Watcher, write: Callable[[TrialRecord], None]) -> None:
        self._trials = {trial.row.key: trial for trial in job.trials}
        self._watcher, self._write = watcher, write
        self._answers: list[object] = []

    def send(self, message: object) -> None:
        """Tell the run what has happened."""
        match message:
            case TrialStarted(key):
                self._watcher.started(self._trials[key])
            case Progress():
                self._watcher.progress(message)
            case Live():
                self._watcher.live(message)
            case Finished():
                self._write(jobs._record(self._trials[message.key], message, ""))
            case Waiting(names):
                self._answers = [
                    GiveTurn(key, Turn(round_, place, TURN_NS))
                    for round_ in range(ROUNDS)
                    for place, key in enumerate(names)
                ]
                self._answers.append(NoMoreTurns())
            case TurnResult() | TrialEnded():
                pass
            case _:
                raise NotImplementedError(f"{message}: only a process of its own is answered")

    def recv(self) -> object:
        """The next turn, or what a finished trial is answered."""
        return self._answers.pop(0) if self._answers else Ack()
