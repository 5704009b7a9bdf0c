"""Runs a plan: one measuring process per job, one transaction per trial."""

from __future__ import annotations

import itertools
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vectrial.model.trial import MACHINE_LACKED
from vectrial.plan.estimate import TimeLimit
from vectrial.plan.model import Job, Plan, groups_of
from vectrial.results.writer import RunWriter, TrialRecord
from vectrial.run.job import JobRunner
from vectrial.run.process import WORK
from vectrial.run.redact import Secrecy, short_secrets
from vectrial.run.watcher import RedactingWatcher, Watcher
from vectrial.servers.limits import remove_orphans
from vectrial.suite.model import Suite

#: Reason of trials that a time limit leaves out.
NO_TIME = "there was no time left for it"
#: Names of the temporary files of `results.folder.replace_text`.
_TEMPORARY = re.compile(r"\.[a-z.]+\.\d+")


@dataclass(frozen=True)
class Outcome:
    """Number of trials in this call by status. before: trials of the plan that earlier calls
    measured. lacking: trials that failed because this machine lacked something."""

    counts: Mapping[str, int]
    before: int = 0
    lacking: int = 0

    @property
    def measured(self) -> bool:
        """False if every trial failed or was skipped."""
        results = set(self.counts) - {"failed", "skipped"}
        return bool(self.before or results or not self.counts)

    @property
    def succeeded(self) -> bool:
        """True if something was measured and this machine lacked nothing that a trial needed."""
        return self.measured and not self.lacking


@dataclass(frozen=True)
class Conditions:
    """The conditions under which a run's jobs are measured; see `JobRunner`."""

    folder: Path
    watcher: Watcher
    write: Callable[[TrialRecord], None]
    secrecy: Secrecy
    allow_exposed: bool


#: Has every job of a suite measured, somewhere.
Executor = Callable[[Sequence[Job], Suite, Conditions], None]


def run_here(jobs: Sequence[Job], suite: Suite, conditions: Conditions) -> None:
    """Measure jobs on this machine, one group after the other."""
    runner = _runner(suite, conditions)
    numbers = itertools.count(1)
    for group in groups_of(jobs):
        begins = [partial(conditions.watcher.job, job, next(numbers), len(jobs)) for job in group]
        runner.run_together(list(zip(group, begins, strict=True)))


@dataclass(frozen=True)
class RunTimeLimit:
    """A time limit for a run. began: `time.monotonic()` at its start."""

    limit: TimeLimit
    began: float

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run's start."""
        return time.monotonic() - self.began

    @property
    def remaining_s(self) -> float:
        """Seconds left in the limit."""
        return max(0.0, self.limit.limit_s - self.elapsed_s)


def run_here_within(time_limit: RunTimeLimit) -> Executor:
    """An executor like `run_here` for the jobs that fit a time limit. The trials of other jobs are
    skipped, so that resuming the run measures them."""

    def execute(jobs: Sequence[Job], suite: Suite, under: Conditions) -> None:
        runner, limit = _runner(suite, under), time_limit.limit

        numbers = {id(job): number for number, job in enumerate(jobs, 1)}

        def measure(group: Sequence[Job], fits: Callable[[Job, float], bool]) -> list[Job]:
            """Measure what fits; what does not."""
            left, began_s, turns_s = list[Job](), dict[int, float](), 0.0

            def begin(job: Job) -> bool:
                began_s[id(job)] = time_limit.elapsed_s
                if fits(job, time_limit.elapsed_s + turns_s):
                    return True
                left.append(job)
                return False

            def ready(job: Job) -> None:
                nonlocal turns_s
                turns_s += job.turns_s
                limit.record_duration(
                    job.label, time_limit.elapsed_s - began_s[id(job)] + job.turns_s
                )

            begins = [partial(under.watcher.job, job, numbers[id(job)], len(jobs)) for job in group]
            runner.run_together(list(zip(group, begins, strict=True)), begin, ready)
            return left

        left = [
            job
            for group in groups_of(jobs)
            for job in measure(group, lambda job, at_s: limit.fits(job.label, job.repeat, at_s))
        ]
        for job in left:
            for unmeasured in measure(
                [job], lambda job, at_s: limit.fits_spare_time(job.label, at_s)
            ):
                for trial in unmeasured.trials if job.repeat <= limit.repeats else ():
                    under.write(TrialRecord(trial.row, "skipped", NO_TIME))

    return execute


def _runner(suite: Suite, conditions: Conditions) -> JobRunner:
    return JobRunner(
        suite.rules,
        conditions.folder,
        conditions.watcher,
        conditions.write,
        conditions.secrecy,
        allow_exposed=conditions.allow_exposed,
    )


def run_plan(
    plan: Plan,
    writer: RunWriter,
    watcher: Watcher,
    allow_exposed: bool = False,
    execute: Executor = run_here,
    again: Collection[str] = (),
) -> Outcome:
    """Measure everything in `plan` that the run folder does not hold yet.

    Servers and measuring processes are in a private network if one can be made.
    allow_exposed: without one, also start servers that listen on every interface; see
        `vectrial.run.exposure`. execute: measures the jobs at some place. again: keys of trials to
        measure although the folder holds them; each result is replaced when the new one is there.

    A store's failure fails its trial and the run goes on. On KeyboardInterrupt the measuring
    process is ended, finished trials stay written, and the interrupt is raised again.
    """
    remove_orphans()
    remove_leftovers(writer.folder)
    try:
        return _run_plan(plan, writer, watcher, allow_exposed, execute, frozenset(again))
    finally:
        remove_leftovers(writer.folder)


def _run_plan(
    plan: Plan,
    writer: RunWriter,
    watcher: Watcher,
    allow_exposed: bool,
    execute: Executor,
    again: frozenset[str],
) -> Outcome:
    counts: Counter[str] = Counter()
    lacking = 0
    noted: set[str] = set()
    secrecy = Secrecy.for_stores(dict.fromkeys(job.store for job in plan.jobs))
    watcher = RedactingWatcher(watcher, secrecy)
    for warning in short_secrets():
        watcher.note(warning)

    def write(record: TrialRecord) -> None:
        nonlocal lacking
        record = secrecy.record(record)
        if record.row.key in again and record.status in ("failed", "skipped"):
            why = f"{record.status} when it was measured again; its first result stays"
            watcher.note(f"{record.row.experiment} of {record.row.series.store}: {why}")
        else:
            writer.trial(record)
        for text in record.notes:
            if text not in noted:
                noted.add(text)
                watcher.note(text)
        counts[record.status] += 1
        lacking += record.status == "failed" and str(record.reason).startswith(MACHINE_LACKED)
        watcher.finished(record)

    for refusal in plan.refusals:
        write(TrialRecord(refusal.row, "skipped", refusal.reason))
    finished = writer.finished_keys() - again
    jobs = plan.without_trials(finished).jobs
    execute(jobs, plan.suite, Conditions(writer.folder, watcher, write, secrecy, allow_exposed))
    before = len(finished & {trial.row.key for trial in plan.trials})
    return Outcome(dict(counts), before, lacking)


def remove_leftovers(folder: Path) -> None:
    """Remove what killed runs left in a run folder: data of jobs, and temporary files. No other
    run is active there, because the database admits one process."""
    shutil.rmtree(folder / WORK, ignore_errors=True)
    for path in folder.glob(".*"):
        if _TEMPORARY.fullmatch(path.name) and not path.is_dir():
            path.unlink(missing_ok=True)
