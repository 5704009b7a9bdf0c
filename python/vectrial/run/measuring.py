"""One measurement: a plan, measured into a run folder while somebody watches."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from vectrial.model.phase import Live
from vectrial.plan.model import Job, Plan, PlannedTrial
from vectrial.results import note as notes
from vectrial.results.writer import RunWriter, TrialRecord
from vectrial.run import exposure
from vectrial.run.place import HERE, machines_at
from vectrial.run.prepare import Fingerprints, check_machine, prepare
from vectrial.run.runner import Outcome, RunTimeLimit, run_here_within, run_plan
from vectrial.run.watcher import Watcher
from vectrial.suite.model import Suite
from vectrial.util import interrupts
from vectrial.util.file_modes import private_files
from vectrial.worker.messages import Progress


class View(Watcher, Protocol):
    """A watcher that is a context manager, and also shows fetches."""

    def fetching(self, done: float, of: float, what: str) -> None:
        """Show that a dataset or an environment is being prepared."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


@dataclass(frozen=True)
class MeasureSettings:
    """Settings with which a plan is measured.

    fingerprints: those of the datasets, which must match, by name and rows. allow_exposed: also
    measure servers that others on the network can reach. place_name: where to measure; see
    `vectrial.run.place`. disturbed: keys of trials that are measured again. note: text added to the
    note on the run. time_limit: limit of the run: jobs that do not fit are skipped.
    """

    fingerprints: Fingerprints | None = None
    allow_exposed: bool = False
    place_name: str = HERE
    disturbed: frozenset[str] = frozenset()
    note: str | None = None
    time_limit: RunTimeLimit | None = None


def check(plan: Plan, settings: MeasureSettings, say: Callable[[str], None]) -> None:
    """Check that a plan can be measured with these settings.

    Raises:
        UserError: this machine or its environment does not allow it.
    """
    check_machine(plan, is_local=settings.place_name == HERE)
    if settings.place_name == HERE:
        exposure.check(plan.servers, say, allow_exposed=settings.allow_exposed)


def measure(
    plan: Plan,
    suite: Suite,
    text: str,
    folder: Path,
    view: Callable[[RunWriter], View],
    settings: MeasureSettings,
) -> Outcome:
    """Measure the part of a plan that `folder` does not hold yet. Only its owner may read it.

    text: the suite, as written to the folder. view: makes the view of the run.

    An error before the first measurement leaves no new folder.
    """
    with (
        private_files(),
        machines_at(settings.place_name, folder) as where,
        RunWriter(folder) as writer,
        view(writer) as shown,
    ):
        prepare(plan, writer, shown.fetching, suite, text, settings.fingerprints, where.environment)
        if settings.note is not None:
            notes.add(folder, settings.note)
        execute = (
            where.execute if settings.time_limit is None else run_here_within(settings.time_limit)
        )
        with interrupts.unwrap_interruption():
            outcome = run_plan(
                plan, writer, shown, settings.allow_exposed, execute, settings.disturbed
            )
            writer.finish()
    return outcome


@dataclass
class LineView:
    """A view that gives a run to a caller in lines: a job that begins, a trial that ends, a note.

    say: receives the lines.
    """

    say: Callable[[str], None]
    _fetched: str = field(default="", init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Keep nothing open."""

    def fetching(self, done: float, of: float, what: str) -> None:
        """Report that a dataset is being prepared: a line when the work changes."""
        if what != self._fetched:
            self._fetched = what
            self.say(what)

    def job(self, job: Job, number: int, of: int) -> None:
        """Report that a job begins."""
        self.say(f"job {number} of {of}: {job.label}")

    def progress(self, progress: Progress) -> None:
        """Report nothing, since progress is too frequent for lines."""

    def live(self, live: Live) -> None:
        """Report nothing, since live values are too frequent for lines."""

    def started(self, trial: PlannedTrial) -> None:
        """Report nothing: a line follows when the trial has ended."""

    def finished(self, record: TrialRecord) -> None:
        """Report a trial that has ended and been written."""
        row = record.row
        point = json.dumps(dict(row.params), default=str)
        reason = f": {record.reason}" if record.reason else ""
        self.say(f"{row.store} {row.experiment} {point}: {record.status}{reason}")

    def note(self, text: str) -> None:
        """Report a note."""
        self.say(text)
