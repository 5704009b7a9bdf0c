"""Runs a plan: one measuring process per job, one transaction per trial."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from vectrial.model.client_limits import Certificate
from vectrial.model.errors import Unsupported, VectrialError
from vectrial.model.live import Live
from vectrial.model.progress import LineProgress
from vectrial.model.provider import Provider
from vectrial.model.store import Store
from vectrial.plan.model import Job, Plan, PlannedTrial
from vectrial.results.writer import RunWriter, TrialRecord
from vectrial.run import heartbeat
from vectrial.run.client_ceilings import Clients
from vectrial.run.heartbeat import Heartbeat
from vectrial.run.redact import Secrecy, short_secrets
from vectrial.run.watcher import Discreet, Watcher
from vectrial.servers.account import let_pass
from vectrial.servers.base import Server, ServerError
from vectrial.servers.inside import Inside
from vectrial.servers.limits import sweep
from vectrial.servers.namespaces import Network, no_network
from vectrial.servers.provide import Choice, prepare, provide, recipe_of
from vectrial.stores.registry import availability
from vectrial.util import environments, interrupts
from vectrial.util.child_environment import for_measuring
from vectrial.util.children import python
from vectrial.util.plugins import reference
from vectrial.util.redaction import Log
from vectrial.worker.messages import (
    Ack,
    Crash,
    Finished,
    JobSpec,
    Progress,
    Serving,
    Started,
    TrialSpec,
)

#: In a run's folder, while it is measured: a folder for each job.
WORK = "work"
#: Names that `results.folder.replace_text` gives.
_ABOUT_TO_REPLACE = re.compile(r"\.[a-z.]+\.\d+")
#: How often the parent looks whether a trial has been under way for too long.
_POLL_S = 0.25
#: How long a server that closed its connections may take to end.
_DYING_S = 1.0
#: How long a trial whose server has ended may take to say what it saw of that.
_MOURNING_S = 10.0
#: How much of a dead process's log goes into the trial's reason.
_LOG_TAIL_BYTES, _LOG_TAIL_LINES = 600, 3


@dataclass(frozen=True)
class Outcome:
    """How a run ended: trials of this call by status. before: of the plan, those that earlier calls
    had measured."""

    counts: Mapping[str, int]
    before: int = 0

    @property
    def measured(self) -> bool:
        """Whether there is a result, unless nothing was asked for."""
        results = set(self.counts) - {"failed", "skipped"}
        return bool(self.before or results or not self.counts)


def run_plan(
    plan: Plan, writer: RunWriter, watcher: Watcher, allow_exposed: bool = False
) -> Outcome:
    """Measure everything of `plan` that the run folder does not hold yet.

    Servers and what measures them are in a network of their own, where one can be made, which
    nobody else reaches. allow_exposed: without one, start also servers that listen on every
    interface; see `vectrial.run.exposure`.

    A store's failure fails its trial and the run goes on. On KeyboardInterrupt the measuring
    process is ended, what was finished stays written, and the interrupt goes on to the caller.
    """
    sweep()
    tidy(writer.folder)
    try:
        return _run_plan(plan, writer, watcher, allow_exposed)
    finally:
        tidy(writer.folder)


def _run_plan(plan: Plan, writer: RunWriter, watcher: Watcher, allow_exposed: bool) -> Outcome:
    counts: dict[str, int] = {}
    noted: set[str] = set()

    secrecy = Secrecy.of(dict.fromkeys(job.store for job in plan.jobs))
    watcher = Discreet(watcher, secrecy)
    for warning in short_secrets():
        watcher.note(warning)

    def write(record: TrialRecord) -> None:
        record = secrecy.record(record)
        writer.trial(record)
        for text in record.notes:
            if text not in noted:
                noted.add(text)
                watcher.note(text)
        counts[record.status] = counts.get(record.status, 0) + 1
        watcher.finished(record)

    for refusal in plan.refusals:
        write(TrialRecord(refusal.row, "skipped", refusal.reason))
    finished = writer.finished_keys()
    jobs = plan.without(finished).jobs
    clients = Clients(plan.suite, watcher.note)
    ready: dict[str, _Ready] = {}
    for number, job in enumerate(jobs, 1):
        if job.store.name not in ready:
            wanted = plan.suite.provider(job.store.name)
            ready[job.store.name] = _prepare(job.store, wanted, watcher)
        found = ready[job.store.name]
        if found.lacks:
            for trial in job.trials:
                write(TrialRecord(trial.row, "skipped", found.lacks))
            continue
        watcher.job(job, number, len(jobs))
        certificate = clients.certificate(job)
        try:
            with _network(job.store, found.choice) as inside:
                here = _Here(
                    found.choice, certificate, inside, allow_exposed, writer.folder, secrecy
                )
                _run_job(job, plan, here, watcher, write)
        finally:
            for log in (writer.folder / "logs").glob(f"{job.store.name}-*.log"):
                secrecy.file(log)
    return Outcome(counts, len(finished & {trial.row.key for trial in plan.trials}))


def tidy(folder: Path) -> None:
    """Remove what runs that were killed left in a run's folder: data of jobs, and files that were
    about to replace others. Nobody else runs there: the database lets one process in."""
    shutil.rmtree(folder / WORK, ignore_errors=True)
    for path in folder.glob(".*"):
        if _ABOUT_TO_REPLACE.fullmatch(path.name) and not path.is_dir():
            path.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Ready:
    """lacks: why a store cannot run here; empty when it can. choice: of its server's provider."""

    lacks: str = ""
    choice: Choice | None = None


def _prepare(store: type[Store], wanted: Provider | None, watcher: Watcher) -> _Ready:
    """Make the store's environment if it has one of its own, and fetch its server's program."""
    choice = None
    try:
        if store.environment is not None:
            environments.ensure(store.environment, watcher.note)
        recipe = recipe_of(store)
        if recipe is not None:
            choice = prepare(recipe, watcher.note, wanted)
            watcher.note(f"{store.name}: server by provider '{choice.provider}': {choice.why}")
    except VectrialError as error:
        return _Ready(str(error))
    available = availability(store, served=choice is not None)
    return _Ready("" if available.works else available.reason, choice)


@dataclass(frozen=True)
class _Here:
    """What a job has on this machine. choice: of its server's provider. inside: the network of the
    server and the measuring process; None: that of this process."""

    choice: Choice | None
    certificate: Certificate
    inside: Inside | None
    allow_exposed: bool
    folder: Path
    secrecy: Secrecy


@contextmanager
def _network(store: type[Store], choice: Choice | None) -> Iterator[Inside | None]:
    """A network for a job's server, where it is a program of this machine and one can be made."""
    if choice is None or choice.provider is not Provider.LOCAL or no_network():
        yield None
        return
    assert store.server is not None
    with Network() as network:
        yield Inside(network, store.server)


def _run_job(
    job: Job,
    plan: Plan,
    here: _Here,
    watcher: Watcher,
    write: Callable[[TrialRecord], None],
) -> None:
    """Measure a job; when its process or the store's server dies, the trial under way fails and
    new ones go on with the rest."""
    left = list(job.trials)
    while left:
        by_key = {trial.row.key: trial for trial in left}
        current, alone = left[0], False
        try:
            rest = replace(job, trials=tuple(left))
            process = _Process(rest, plan, here, watcher.note)
            with process:
                # Where the server is gone, those that ended with it are heard before they end.
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
                        case Finished():
                            trial = by_key[message.key]
                            left.remove(trial)
                            suspect = suspicion(message)
                            fault = process.server_fault(suspected=suspect is not None)
                            alone = fault is not None
                            record = _record(trial, message)
                            if fault is not None and suspect is not None:
                                reason = f"{fault}: {suspect}{process.server_log()}"
                                record = replace(record, status="failed", reason=reason, gate=[])
                            write(replace(record, server=process.server_facts()))
        except ServerError as error:  # it could not be started: it will not be for the next trial
            for trial in left:
                facts = process.server_facts()
                write(TrialRecord(trial.row, "failed", str(error), server=facts))
            return
        if left and not alone:
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
    )


class _Process:
    """The measuring process of one job, and the server of its store where that needs one; both
    have ended when the block is left.

    Raises:
        ServerError: when it is entered and the server does not start.
    """

    #: Seconds that the trial under way was allowed, once it has taken longer.
    _overdue: float | None = None
    #: What is wrong with the server, once it is.
    _fault: str | None = None
    _server: Server | None = None
    _heartbeat: Heartbeat | None = None

    def __init__(
        self,
        job: Job,
        plan: Plan,
        here: _Here,
        note: LineProgress,
    ) -> None:
        self._job, self._plan, self._certificate = job, plan, here.certificate
        self._inside, folder = here.inside, here.folder
        name = f"{job.store.name}-{job.index.kind}-{job.rows}-r{job.repeat}"
        self._log = folder / "logs" / f"{name}-{job.trials[0].row.key[:8]}.log"
        self._output = Log(self._log, here.secrecy)
        # Beside the results, on a real disk: a temporary folder may be memory.
        self._data = folder / WORK / self._log.stem
        self._choice = here.choice
        recipe = recipe_of(job.store)
        if recipe is not None:
            assert here.choice is not None, "`_prepare` chose"
            placement = here.certificate.placement
            self._server = provide(
                recipe,
                self._data / "server",
                provider=here.choice.provider,
                log=self._log.with_name(f"{self._log.stem}-server.log"),
                cores=placement.server_cores or (),
                limits=placement.limits,
                progress=note,
                inside=here.inside,
                allow_exposed=here.allow_exposed,
            )

    def __enter__(self) -> _Process:
        self._log.parent.mkdir(exist_ok=True)
        shutil.rmtree(self._data, ignore_errors=True)
        self._data.mkdir(parents=True)
        let_pass(self._log.parents[1], self._data.parent, self._data)
        with ExitStack() as undone:
            if self._server is not None:
                undone.enter_context(self._server)
                self._listen_to(self._server)
            self._start(self._serving())
            undone.pop_all()
        return self

    def _serving(self) -> Serving | None:
        """Where the server is now; None where there is none."""
        if self._server is None:
            return None
        return Serving(self._server.address, self._server.processes(), self._server.data_dirs())

    def _listen_to(self, server: Server) -> None:
        """Watch the server that runs now, which has other processes than before its restart."""
        if self._heartbeat is not None:
            self._heartbeat.__exit__(None, None, None)
        self._heartbeat = Heartbeat(server)
        self._heartbeat.__enter__()

    def crash_server(self) -> None:
        """Kill the server, start it again on the same data, and tell the measuring process where
        it is; or why that cannot be done, where it is not ours.

        Raises:
            ServerError: it does not start again.
        """
        assert self._server is not None, "the measuring process knows whether there is one"
        answer: Serving | str | None
        try:
            self._server.kill()
            self._server.restart()
            self._listen_to(self._server)
        except Unsupported as error:
            answer = str(error)
        except ServerError as error:
            raise ServerError(f"it did not start again after it was killed: {error}") from error
        else:
            answer = self._serving()
        self._pipe.send(answer)

    def _start(self, serving: Serving | None) -> None:
        ours, theirs = Pipe()
        self._pipe: Connection[Any, Any] = ours
        with self._output.opened() as log, theirs:
            command = _command(self._job.store, str(theirs.fileno()), str(os.getpid()))
            network = None if self._inside is None else self._inside.network
            files = () if network is None else network.files
            self._child = subprocess.Popen(
                command.argv if network is None else network.enter(command.argv),
                pass_fds=(theirs.fileno(), *files),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**command.env, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
                umask=0o077,
            )
        spec = _spec(self._job, self._plan, self._certificate, self._data, serving)
        with suppress(BrokenPipeError):  # it died at once: `why` tells
            self._pipe.send(spec)

    def __exit__(self, *exc: object) -> None:
        try:
            if self._child.poll() is None:
                at_once = exc[0] is not None or self.server_fault(suspected=False) is not None
                try:
                    self._child.wait(timeout=0 if at_once else 30)
                except subprocess.TimeoutExpired:
                    os.killpg(self._child.pid, signal.SIGKILL)
                    self._child.wait()
            self._pipe.close()
        finally:
            if self._heartbeat is not None:
                self._heartbeat.__exit__(None, None, None)
            if self._server is not None:
                # Its data is thrown away: gentleness is for a server that is well, with time.
                if self._fault is None and not isinstance(exc[1], KeyboardInterrupt):
                    self._server.stop()
                else:
                    self._server.abandon()
        shutil.rmtree(self._data, ignore_errors=True)

    def server_facts(self) -> Mapping[str, Any] | None:
        """How the server is run, for the results; None where there is none."""
        if self._server is None or self._choice is None:
            return None
        cores = list(self._certificate.placement.server_cores or ())
        return {**self._server.facts(), "why": self._choice.why, "cores": cores}

    def server_fault(self, *, suspected: bool) -> str | None:
        """What is wrong with the store's server; None where it is well, or there is none.

        suspected: a trial has just failed, or met errors. A server that dies closes its connections
        first, so that an error is known a moment before the death it comes from; and whether it
        answers is not said before it does, or was silent for long.
        """
        if self._server is None or self._heartbeat is None or self._fault is not None:
            return self._fault
        ends = time.monotonic() + (_DYING_S if suspected else 0.0)
        while self._server.lives():
            if time.monotonic() >= ends and (not suspected or self._server.answers()):
                return None
            if self._heartbeat.silence_s() >= heartbeat.SILENCE_S:
                self._fault = "the server does not answer"
                return self._fault
            time.sleep(_POLL_S / 5)
        self._fault = "the server ended"
        return self._fault

    def server_log(self) -> str:
        """The end of the server's log, for the reason of a trial; nothing where it has none."""
        path = self._log.with_name(f"{self._log.stem}-server.log")
        last = _tail(path)
        return f" ({path.name} ends: {' | '.join(last)})" if last else ""

    def _watch(self, since_dead: float | None) -> float | None:
        """Look after the server while its trial is under way, and note when it is found dead
        (`time.monotonic`): the trial has a moment to tell what it saw of that."""
        if self._server is None or self._heartbeat is None:
            return None
        if not self._server.lives():
            since_dead = since_dead or time.monotonic()
            if time.monotonic() - since_dead > _MOURNING_S:
                self._fault = "the server ended"
        elif self._heartbeat.silence_s() >= heartbeat.SILENCE_S:
            self._fault = "the server does not answer"
        return since_dead

    def messages(self, timeout_s: float) -> Iterator[object]:
        """What the process says, until it ends or a trial takes longer than `timeout_s`. Whoever
        asks for the next message has done with the one before: what a trial left is kept."""
        since, dead = time.monotonic(), None
        while True:
            interrupts.check()
            message = None
            if self._pipe.poll(_POLL_S):
                try:
                    message = self._pipe.recv()
                except (EOFError, ConnectionResetError):
                    return
                if isinstance(message, Started):
                    since = time.monotonic()
                yield message
                if isinstance(message, Finished):
                    with suppress(BrokenPipeError, ConnectionResetError):  # it has ended meanwhile
                        self._pipe.send(Ack())
            # One that has ended is heard, and those that wait behind it, however late.
            ended = isinstance(message, Finished)
            dead = self._watch(dead)
            if not ended and time.monotonic() - since > timeout_s:
                self._overdue = timeout_s
            if self._overdue is not None or (self._fault is not None and not ended):
                os.killpg(self._child.pid, signal.SIGKILL)
                return

    def why(self) -> str:
        """Why the process ended before its trials did."""
        if self._fault is not None:
            return f"{self._fault}{self.server_log()}"
        if self._overdue is not None:
            return f"took longer than trial_timeout_s = {self._overdue:g}"
        code = self._child.returncode
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._output.settle()
        last = (_tail(self._log) or ["its log is empty"])[-1]
        return f"the measuring process ended with {how}: {last} (log: {self._log.name})"


def _tail(log: Path) -> list[str]:
    """The last lines of a log, as they can be shown; none where there are none."""
    try:
        text = log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
    except FileNotFoundError:
        return []
    lines = ("".join(c if c.isprintable() else " " for c in line) for line in text.splitlines())
    return [line.strip() for line in lines if line.strip()][-_LOG_TAIL_LINES:]


def suspicion(message: Finished) -> str | None:
    """The first that went wrong in a trial, which may be its server's end; None where all went
    well. An exception in the gate counts there as a wrong answer."""
    if message.status == "failed":
        return message.reason
    for check in message.gate:
        if check.passed is False:
            return f"gate: {check.check_name}: {check.detail}"
    for phase in message.phases:
        if phase.errors:
            kind, count, said = phase.errors[0]
            return f"{phase.name}: {count:,} × {kind}" + (f": {said[0]}" if said else "")
        if not phase.valid:
            return f"{phase.name}: {phase.reason}"
    return None


def _command(store: type[Store], *arguments: str) -> environments.Command:
    """How to start the measuring process, in the store's own environment if it has one."""
    module = "vectrial.worker.worker"
    if store.environment is None:
        return environments.Command(python(module, *arguments), for_measuring())
    command = environments.command(store.environment, module, arguments)
    return replace(command, env=for_measuring(command.env))


def _spec(
    job: Job, plan: Plan, certificate: Certificate, data_dir: Path, serving: Serving | None
) -> JobSpec:
    return JobSpec(
        store=reference(job.store),
        index_kind=job.index.kind,
        index_params=job.index.params.model_dump(mode="json"),
        dataset=job.dataset,
        rows=job.rows,
        queries=job.queries,
        k=plan.suite.k,
        seed=plan.suite.seed + job.repeat,
        batch_rows=plan.suite.batch_rows,
        data_dir=data_dir,
        certificate=certificate,
        trials=tuple(
            TrialSpec(
                trial.row.key,
                reference(type(trial.experiment)),
                trial.experiment.model_dump(mode="json"),
                trial.point,
                trial.row.lane,
            )
            for trial in job.trials
        ),
        server=serving,
        durability=job.durability,
        metadata=job.metadata,
        repeat_queries=plan.suite.repeat_queries,
    )
