"""Measures jobs on this machine: their stores prepared, their servers started, their trials
recorded."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from vectrial.model.errors import VectrialError
from vectrial.model.phase import Live, TurnTime
from vectrial.model.placement import Provider
from vectrial.plan.model import Job, PlannedTrial, canonical
from vectrial.results.writer import TrialRecord
from vectrial.run.client_ceilings import ClientCeilings, ClientMachines
from vectrial.run.process import JobSite, MeasuringProcess
from vectrial.run.redact import Secrecy
from vectrial.run.turns import TurnGroup, TurnJob, WaitingJob
from vectrial.run.watcher import Watcher
from vectrial.servers.base import ServerError
from vectrial.servers.limits import why_no_limits
from vectrial.servers.namespaces import Network, why_no_network
from vectrial.servers.provide import ProviderChoice, prepare, recipe_of
from vectrial.servers.server_network import ServerNetwork
from vectrial.stores.registry import availability
from vectrial.suite.model import Rules
from vectrial.telemetry.compaction import memory_in_large_pieces
from vectrial.util import environments
from vectrial.util.package_releases import ensure, packages_of
from vectrial.util.variants import run_with_variables
from vectrial.worker.messages import (
    Finished,
    NoMoreTurns,
    Progress,
    SendLoad,
    TrialEnded,
    TrialStarted,
    Waiting,
)

#: A trial's own clock was slowed down if the trial took more than this factor times what that clock
#: says, plus these seconds: a busy machine reads messages late.
_SLOWER_CLOCK, _LATE_S = 1.5, 2.0


class JobRunner:
    """Measures the jobs of a suite, one after the other. Shared work is done once: the stores'
    environments and programs, and the client's ceilings.

    Args:
        folder: for logs, and for a job's data while the job is measured.
        watcher: receives the run's events. write: receives every trial that has ended, including
            those of stores that cannot run here.
        secrecy: removes secrets from logs.
        allow_exposed: see `vectrial.run.runner.run_plan`.
        clients: the machines that send the loads; by default this one.

    Raises:
        UserError: the suite's placement does not fit this machine.
    """

    def __init__(
        self,
        rules: Rules,
        folder: Path,
        watcher: Watcher,
        write: Callable[[TrialRecord], None],
        secrecy: Secrecy,
        *,
        allow_exposed: bool,
        clients: ClientMachines | None = None,
    ) -> None:
        self._clients = clients
        self._rules, self._folder, self._watcher = rules, folder, watcher
        self._write, self._secrecy, self._allow_exposed = write, secrecy, allow_exposed
        self._ceilings = ClientCeilings(rules, watcher.note, clients)
        self._together = TurnGroup(watcher)
        self._prepared: dict[tuple[str, bool], Preparation] = {}

    def run(self, job: Job, begins: Callable[[], None] = lambda: None) -> None:
        """Measure a job alone. begins: called once it is clear that the job's store runs here."""
        self.run_together([(job, begins)])

    def run_together(
        self,
        jobs: Sequence[tuple[Job, Callable[[], None]]],
        fits: Callable[[Job], bool] = lambda job: True,
        ready: Callable[[Job], None] = lambda job: None,
    ) -> None:
        """Measure jobs whose loads take turns; each comes with a function to call when it begins.

        Args:
            fits: whether there is time for a job, asked when it would begin. ready: called when its
                loads wait for their turns.
        """
        candidates = [
            TurnJob(
                job.store.name,
                run_with_variables(job.variant, self._steps(job, begins)),
                job.need_bytes,
                partial(fits, job),
                partial(ready, job),
            )
            for job, begins in jobs
        ]
        with memory_in_large_pieces():
            self._together.run(candidates)

    def _steps(self, job: Job, begins: Callable[[], None]) -> Generator[WaitingJob]:
        """Measure a job; yield whenever its loads wait for turns."""
        kind = job.name, job.nodes > 1
        if kind not in self._prepared:
            wanted = self._rules.providers.get(job.name)
            self._prepared[kind] = _prepare(job, wanted, self._watcher)
        prepared = self._prepared[kind]
        choice = prepared.choice
        lacks = prepared.lacks or _why_no_limits(job, choice)
        if lacks:
            for trial in job.trials:
                self._write(TrialRecord(trial.row, "skipped", lacks))
            return
        begins()
        certificate = self._ceilings.certificate(job)
        try:
            with _network(job, None if self._clients else choice) as inside:
                site = JobSite(
                    choice, certificate, inside, self._allow_exposed, self._folder, self._secrecy,
                    self._clients, prepared.packages,
                )  # fmt: skip
                finished = partial(self._record_finished, note=prepared.note)
                yield from _measure_job(job, self._rules, site, self._watcher, finished)
        finally:
            for log in (self._folder / "logs").glob(f"{job.store.name}-*.log"):
                self._secrecy.file(log)

    def _record_finished(self, record: TrialRecord, note: str) -> None:
        self._ceilings.forget_exceeded(record.phases)
        self._write(replace(record, notes=[*record.notes, note]) if note else record)


@dataclass(frozen=True)
class Preparation:
    """The preparations that a store needs to run here.

    lacks: the reason why it cannot run; empty if it can. choice: the provider of its server.
    packages: folder of packages that its measuring process uses in place of the installed ones.
    note: a note for every trial.
    """

    lacks: str = ""
    choice: ProviderChoice | None = None
    packages: Path | None = None
    note: str = ""


def _prepare(job: Job, provider: Provider | None, watcher: Watcher) -> Preparation:
    """Make the store's own environment, install its packages, and fetch its server's program."""
    store, choice, folder, note = job.store, None, None, ""
    try:
        python = sys.executable
        if store.environment is not None:
            python = str(environments.ensure(store.environment, watcher.note))
        if (packages := packages_of(store.name, job.variant)) is not None:
            folder = ensure(packages, python, watcher.note)
            note = f"{job.name}: measured with the packages {packages.text}"
        recipe = recipe_of(store)
        if recipe is not None:
            choice = prepare(recipe, watcher.note, provider, nodes=job.nodes)
            watcher.note(f"{job.name}: server by provider '{choice.provider}': {choice.why}")
    except VectrialError as error:
        return Preparation(str(error))
    available = availability(store, served=choice is not None)
    lacks = "" if available.works or folder is not None else available.text
    return Preparation(lacks, choice, folder, note)


def _why_no_limits(job: Job, choice: ProviderChoice | None) -> str:
    """The reason why a job's own limits cannot be set; empty if they can, or if it has none. A
    placement's limits are applied as far as possible."""
    if job.limits is None or (choice is not None and choice.provider is Provider.DOCKER):
        return ""  # an engine sets them itself
    if choice is not None and choice.provider is Provider.EXTERNAL:
        return f"no limits can be set on a server that is not started here ({choice.why})"
    if job.nodes > 1:
        return "limits of a trial are set on one server, not on the nodes of a cluster"
    why = why_no_limits(job.limits)
    return f"no limits can be set here: {why}" if why else ""


@contextmanager
def _network(job: Job, choice: ProviderChoice | None) -> Iterator[ServerNetwork | None]:
    """A private network, if possible, for a job whose server is a program of this machine or whose
    trials ask for an object store."""
    local = choice is not None and choice.provider is Provider.LOCAL
    asks = choice is None and any(trial.experiment.uses_objects for trial in job.trials)
    if not (local or asks) or why_no_network():
        yield None
        return
    with Network() as network:
        yield ServerNetwork(network, job.store.server or "")


def _measure_job(
    job: Job, rules: Rules, site: JobSite, watcher: Watcher, write: Callable[[TrialRecord], None]
) -> Generator[WaitingJob]:
    """Measure a job; yield whenever its loads wait for turns.

    If its process or the store's server dies, the current trial fails, and a new process continues
    with the rest. Trials that wait for turns fail together.
    """
    left = list(job.trials)
    while left:
        by_key = {trial.row.key: trial for trial in left}
        current, anew, at = left[0], False, ""
        clock = _TrialClock()
        waited: set[str] = set()
        try:
            rest = replace(job, trials=tuple(left))
            process = MeasuringProcess(rest, rules, site, watcher.note)
            with process:
                for message in process.messages(rules.trial_timeout_s):
                    match message:
                        case TrialEnded(key):
                            clock.ended(key)
                        case TrialStarted(key):
                            clock.started(key)
                            current, waited, at = by_key[key], set(), ""
                            process.watched = not type(current.experiment).ends_server
                            watcher.started(current)
                        case Waiting(names):
                            waited = set(names)
                            clock.forget(waited)
                            waiting = {key: by_key[key] for key in names}
                            times, alike = _turn_times(waiting), _load_identities(waiting, names)
                            yield WaitingJob(job.label, process, times, alike)
                            process.send(NoMoreTurns())
                        case Progress():
                            at = message.what
                            watcher.progress(message)
                        case Live():
                            watcher.live(message)
                        case Finished():
                            trial = by_key[message.key]
                            left.remove(trial)
                            suspect = None if message.overdue else suspicion(message)
                            fault = process.server_fault(suspected=suspect is not None)
                            anew = message.overdue or fault is not None
                            record = _record(trial, message, clock.fault(message))
                            if message.overdue:
                                record = replace(record, reason=process.end_reason())
                            on_purpose = type(trial.experiment).ends_server
                            facts = process.server_facts()
                            cause = fault or _out_of_memory(job, facts)
                            if cause and suspect is not None and not on_purpose:
                                reason = f"{cause}: {suspect}{process.server_log()}"
                                record = replace(record, status="failed", reason=reason, gate=[])
                            write(replace(record, server=facts))
                            if on_purpose and left and job.store.kind == "server":
                                anew = True  # the others get a server that suffered nothing
                                process.kill()
                                break
                        case _:
                            if isinstance(message, SendLoad):
                                watcher.progress(Progress(0, 1, "the client machines send"))
                            process.answer(message)
        except ServerError as error:  # it would not start for the next trial either
            for trial in left:
                facts = process.server_facts()
                write(TrialRecord(trial.row, "failed", str(error), server=facts))
            return
        if left and not anew:
            facts, why = process.server_facts(), process.end_reason()
            facts = None if facts is None else {**facts, "at": at}
            together = [trial for trial in left if trial.row.key in waited]
            for failed in together or [current if current in left else left[0]]:
                left.remove(failed)
                write(TrialRecord(failed.row, "failed", why, server=facts))


def _turn_times(waiting: Mapping[str, PlannedTrial]) -> dict[str, TurnTime]:
    """The time for which each waiting trial takes turns."""
    return {key: trial.experiment.turn_time(trial.point) for key, trial in waiting.items()}


def _load_identities(
    waiting: Mapping[str, PlannedTrial], names: Mapping[str, str]
) -> dict[str, str]:
    """The identity that a load shares with its other repeats: trial and phase."""
    return {
        key: canonical({**trial.identity, "repeat": None, "phase": names[key]})
        for key, trial in waiting.items()
    }


def _out_of_memory(job: Job, facts: Mapping[str, Any] | None) -> str:
    """The fault, if the kernel killed a process at the trials' memory limit although the server
    lives; else empty. Results of checks are then not the store's answers."""
    killed = job.limits is not None and (facts or {}).get("oom_kills")
    return f"out of memory ({job.limits})" if killed else ""


class _TrialClock:
    """Durations of trials by the clock of this process, which no store can set."""

    def __init__(self) -> None:
        self._began: dict[str, float] = {}
        self._took: dict[str, float] = {}

    def started(self, key: str) -> None:
        """Note that a trial begins."""
        self._began[key] = time.monotonic()

    def forget(self, keys: Set[str]) -> None:
        """Leave out trials that wait for turns: their end is heard of when others have theirs."""
        for key in keys:
            self._began.pop(key, None)

    def ended(self, key: str) -> None:
        """Note that a trial has ended."""
        if key in self._began:
            self._took[key] = time.monotonic() - self._began.pop(key)

    def fault(self, message: Finished) -> str:
        """The fault of a trial's own clock; empty if it agrees with this one."""
        took_s = self._took.get(message.key)
        if took_s is None or took_s <= _SLOWER_CLOCK * message.duration_s + _LATE_S:
            return ""
        return (
            f"the measuring process's clock says that the trial took {message.duration_s:,.3g} s;"
            f" it took {took_s:,.3g} s: none of its times is true"
        )


def _record(trial: PlannedTrial, message: Finished, clock_fault: str) -> TrialRecord:
    status, reason = message.status, message.reason
    if clock_fault:
        for phase in message.phases:
            phase.invalidate(clock_fault)
    invalid = [phase for phase in message.phases if not phase.valid]
    if status == "ok" and invalid and len(invalid) == len(message.phases):
        status, reason = "invalid", invalid[0].reason
    return TrialRecord(
        row=trial.row,
        status=status,
        reason=reason,
        store_version=message.store_version,
        started_at=message.started_at,
        started_ns=message.started_ns,
        duration_s=message.duration_s,
        phases=message.phases,
        telemetry=message.telemetry,
        gate=message.gate,
        notes=message.notes,
        load=message.load,
        metrics=trial.experiment.metrics,
    )


def suspicion(message: Finished) -> str | None:
    """The first error of a trial, which a dead server may have caused; None without errors."""
    if message.status == "failed":
        return message.reason
    for check in message.gate:
        if check.passed is False:
            return f"gate: {check.name}: {check.detail}"
    for phase in message.phases:
        if phase.errors:
            kind, count, messages = phase.errors[0]
            return f"{phase.name}: {count:,} × {kind}" + (f": {messages[0]}" if messages else "")
        if not phase.valid:
            return f"{phase.name}: {phase.reason}"
    return None
