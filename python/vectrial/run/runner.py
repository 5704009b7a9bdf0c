"""Runs a plan: one measuring process per job, one transaction per trial."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from vectrial.model.errors import VectrialError
from vectrial.model.live import Live
from vectrial.model.provider import Provider
from vectrial.model.store import Store
from vectrial.plan.model import Job, Plan, PlannedTrial
from vectrial.results.writer import RunWriter, TrialRecord
from vectrial.run.client_ceilings import ClientCeilings
from vectrial.run.process import WORK, MeasuringProcess, Site
from vectrial.run.redact import Secrecy, short_secrets
from vectrial.run.watcher import RedactingWatcher, Watcher
from vectrial.servers.base import ServerError
from vectrial.servers.inside import Inside
from vectrial.servers.limits import sweep
from vectrial.servers.namespaces import Network, no_network
from vectrial.servers.provide import Choice, prepare, recipe_of
from vectrial.stores.registry import availability
from vectrial.util import environments
from vectrial.worker.messages import Crash, Finished, Progress, Started, Strike

#: Names of the temporary files of `results.folder.replace_text`.
_TEMPORARY = re.compile(r"\.[a-z.]+\.\d+")


@dataclass(frozen=True)
class Outcome:
    """Number of trials of this call by status. before: trials of the plan that earlier calls
    measured."""

    counts: Mapping[str, int]
    before: int = 0

    @property
    def measured(self) -> bool:
        """False if every trial failed or was skipped."""
        results = set(self.counts) - {"failed", "skipped"}
        return bool(self.before or results or not self.counts)


def run_plan(
    plan: Plan, writer: RunWriter, watcher: Watcher, allow_exposed: bool = False
) -> Outcome:
    """Measure everything of `plan` that the run folder does not hold yet.

    Servers and measuring processes are in a private network, where one can be made.
    allow_exposed: without one, also start servers that listen on every interface; see
    `vectrial.run.exposure`.

    A store's failure fails its trial and the run goes on. On KeyboardInterrupt the measuring
    process is ended, finished trials stay written, and the interrupt is raised again.
    """
    sweep()
    tidy(writer.folder)
    try:
        return _run_plan(plan, writer, watcher, allow_exposed)
    finally:
        tidy(writer.folder)


def _run_plan(plan: Plan, writer: RunWriter, watcher: Watcher, allow_exposed: bool) -> Outcome:
    counts: Counter[str] = Counter()
    noted: set[str] = set()
    secrecy = Secrecy.of(dict.fromkeys(job.store for job in plan.jobs))
    watcher = RedactingWatcher(watcher, secrecy)
    for warning in short_secrets():
        watcher.note(warning)

    def write(record: TrialRecord) -> None:
        record = secrecy.record(record)
        writer.trial(record)
        for text in record.notes:
            if text not in noted:
                noted.add(text)
                watcher.note(text)
        counts[record.status] += 1
        watcher.finished(record)

    for refusal in plan.refusals:
        write(TrialRecord(refusal.row, "skipped", refusal.reason))
    finished = writer.finished_keys()
    jobs = plan.without(finished).jobs
    ceilings = ClientCeilings(plan.suite, watcher.note)
    prepared: dict[tuple[str, bool], tuple[str, Choice | None]] = {}
    for number, job in enumerate(jobs, 1):
        kind = job.store.name, job.nodes > 1
        if kind not in prepared:
            prepared[kind] = _prepare(job, plan.suite.provider(job.store.name), watcher)
        lacks, choice = prepared[kind]
        if lacks:
            for trial in job.trials:
                write(TrialRecord(trial.row, "skipped", lacks))
            continue
        watcher.job(job, number, len(jobs))
        certificate = ceilings.certificate(job)
        try:
            with _network(job.store, choice) as inside:
                site = Site(choice, certificate, inside, allow_exposed, writer.folder, secrecy)
                _run_job(job, plan, site, watcher, write)
        finally:
            for log in (writer.folder / "logs").glob(f"{job.store.name}-*.log"):
                secrecy.file(log)
    before = len(finished & {trial.row.key for trial in plan.trials})
    return Outcome(dict(counts), before)


def tidy(folder: Path) -> None:
    """Remove what killed runs left in a run folder: data of jobs, and temporary files. No other
    run is active there, because the database admits one process."""
    shutil.rmtree(folder / WORK, ignore_errors=True)
    for path in folder.glob(".*"):
        if _TEMPORARY.fullmatch(path.name) and not path.is_dir():
            path.unlink(missing_ok=True)


def _prepare(job: Job, wanted: Provider | None, watcher: Watcher) -> tuple[str, Choice | None]:
    """Make the store's own environment, and fetch its server's program.

    Returns:
        The reason why the store cannot run here, empty if it can; and the provider of its server.
    """
    store, choice = job.store, None
    try:
        if store.environment is not None:
            environments.ensure(store.environment, watcher.note)
        recipe = recipe_of(store)
        if recipe is not None:
            choice = prepare(recipe, watcher.note, wanted, nodes=job.nodes)
            watcher.note(f"{store.name}: server by provider '{choice.provider}': {choice.why}")
    except VectrialError as error:
        return str(error), None
    available = availability(store, served=choice is not None)
    return "" if available.works else available.reason, choice


@contextmanager
def _network(store: type[Store], choice: Choice | None) -> Iterator[Inside | None]:
    """A private network for a job whose server is a program of this machine, where possible."""
    if choice is None or choice.provider is not Provider.LOCAL or no_network():
        yield None
        return
    assert store.server is not None
    with Network() as network:
        yield Inside(network, store.server)


def _run_job(
    job: Job, plan: Plan, site: Site, watcher: Watcher, write: Callable[[TrialRecord], None]
) -> None:
    """Measure a job. If its process or the store's server dies, the current trial fails, and a new
    process continues with the rest."""
    left = list(job.trials)
    while left:
        by_key = {trial.row.key: trial for trial in left}
        current, server_failed = left[0], False
        try:
            rest = replace(job, trials=tuple(left))
            process = MeasuringProcess(rest, plan, site, watcher.note)
            with process:
                for message in process.messages(plan.suite.trial_timeout_s):
                    match message:
                        case Started(key):
                            current = by_key[key]
                            watcher.started(current)
                        case Progress():
                            watcher.progress(message)
                        case Live():
                            watcher.live(message)
                        case Crash():
                            process.crash_server()
                        case Strike():
                            process.strike(message)
                        case Finished():
                            trial = by_key[message.key]
                            left.remove(trial)
                            suspect = suspicion(message)
                            fault = process.server_fault(suspected=suspect is not None)
                            server_failed = fault is not None
                            record = _record(trial, message)
                            if fault is not None and suspect is not None:
                                reason = f"{fault}: {suspect}{process.server_log()}"
                                record = replace(record, status="failed", reason=reason, gate=[])
                            write(replace(record, server=process.server_facts()))
        except ServerError as error:  # it would not start for the next trial either
            for trial in left:
                facts = process.server_facts()
                write(TrialRecord(trial.row, "failed", str(error), server=facts))
            return
        if left and not server_failed:
            failed = current if current in left else left[0]
            left.remove(failed)
            facts = process.server_facts()
            write(TrialRecord(failed.row, "failed", process.why(), server=facts))


def _record(trial: PlannedTrial, message: Finished) -> TrialRecord:
    status, reason = message.status, message.reason
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
        metrics=trial.experiment.metrics,
    )


def suspicion(message: Finished) -> str | None:
    """The first error of a trial, which a dead server may have caused; None without errors. An
    exception in the gate counts as a failed check."""
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
