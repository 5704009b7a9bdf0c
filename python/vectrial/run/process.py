"""The measuring process of a job, and the server of its store."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import MappingProxyType
from typing import Any

from vectrial.experiments.base import Experiment
from vectrial.model.errors import Unsupported
from vectrial.model.phase import Turn
from vectrial.model.placement import Certificate, Limits, Provider
from vectrial.model.progress import LineProgress
from vectrial.model.store import Store
from vectrial.model.trial import (
    OVERDUE,
    PROCESS_ENDED,
    SERVER_ENDED,
    SERVER_SILENT,
    STUCK,
)
from vectrial.plan.model import Job
from vectrial.run import heartbeat
from vectrial.run.client_ceilings import ClientMachines
from vectrial.run.data_disk import DataDisk
from vectrial.run.heartbeat import Heartbeat
from vectrial.run.object_servers import ObjectServers
from vectrial.run.redact import Secrecy
from vectrial.run.requests import RequestHandler, serving
from vectrial.servers.account import allow_passage
from vectrial.servers.base import Server
from vectrial.servers.limits import (
    NoControlGroup,
    change_memory,
    command_in_groups,
    group_name,
    make_groups,
)
from vectrial.servers.provide import ProviderChoice, make_server, recipe_of
from vectrial.servers.running import as_up_server
from vectrial.servers.server_network import ServerNetwork
from vectrial.servers.supervisor import memory_use, remove
from vectrial.suite.model import Rules
from vectrial.util import environments, interrupts
from vectrial.util.child_environment import for_measuring
from vectrial.util.children import program
from vectrial.util.package_releases import importable
from vectrial.util.plugins import reference
from vectrial.util.redaction import Log
from vectrial.util.variants import file_stem
from vectrial.worker.job_data import JobData
from vectrial.worker.messages import (
    TIME_IS_UP,
    Ack,
    Finished,
    GiveTurn,
    JobSpec,
    Serving,
    TrialSpec,
    TrialStarted,
    TurnResult,
    Waiting,
)

#: Name of the folder with a folder for each job, in a run's folder while it is measured.
WORK = "work"
#: Seconds in which a trial that has reached its time limit may send what it has measured.
_UNWINDING_S = 10.0
#: Seconds between two checks of a trial's time limit.
_POLL_S = 0.25
#: Seconds in which a server that closed its connections may end.
_DYING_S = 1.0
#: Seconds that a turn may take beyond its length: a request has failed before.
_TURN_S = 60.0
#: Seconds in which a trial whose server has ended may report its errors.
_MOURNING_S = 10.0
#: Size of the end of a dead process's log in the trial's reason.
_LOG_TAIL_BYTES, _LOG_TAIL_LINES = 600, 3


@dataclass(frozen=True)
class JobSite:
    """The conditions of a job on this machine. choice: its server's provider. server_network: the
    network of the server and the measuring process; None means this process's. clients: the
    machines that send the loads and reach the server; by default this one. packages: folder of
    packages that the measuring process uses in place of the installed ones."""

    choice: ProviderChoice | None
    certificate: Certificate
    server_network: ServerNetwork | None
    allow_exposed: bool
    folder: Path
    secrecy: Secrecy
    clients: ClientMachines | None = None
    packages: Path | None = None


class MeasuringProcess:
    """The measuring process of one job, and its store's server, if any. Both have ended at the end
    of the `with` block.

    Raises:
        ServerError: on entry, if the server does not start.
    """

    #: The time limit of the current trial in seconds, once it is exceeded.
    _overdue: float | None = None
    #: The limit of a turn in seconds, once one has exceeded it.
    _stuck_s: float | None = None
    #: True if a server that ends or stops answering ends the current trial.
    watched = True
    #: The fault of the server, once it has one.
    _fault: str | None = None
    _server: Server | None = None
    #: Control groups of the measuring process, where it has the store's data; what they used.
    _groups: tuple[Path, ...] = ()
    _memory_use: Mapping[str, int] = MappingProxyType({})
    #: The most they used before the limit was changed.
    _peak_bytes: int | None = None
    _heartbeat: Heartbeat | None = None

    def __init__(
        self,
        job: Job,
        rules: Rules,
        site: JobSite,
        note: LineProgress,
    ) -> None:
        self._job, self._rules, self._certificate = job, rules, site.certificate
        self._server_network, folder = site.server_network, site.folder
        of = f"-{job.nodes}-nodes" if job.nodes > 1 else ""
        name = f"{file_stem(job.name)}-{job.index.kind}-{job.rows}{of}-r{job.repeat}"
        self._log = folder / "logs" / f"{name}-{job.trials[0].row.key[:8]}.log"
        self._output = Log(self._log, site.secrecy)
        # On the disk of the results: a temporary folder may be in memory.
        self._data = folder / WORK / self._log.stem
        self._disk = DataDisk(
            site.certificate.placement, self._data.with_name(f"{self._data.name}.disk"), self._data
        )
        self._choice, self._packages = site.choice, site.packages
        self._objects = ObjectServers(
            folder,
            None if site.server_network is None else site.server_network.network,
            tuple(site.certificate.placement.server_cores or ()),
            note,
        )
        recipe = recipe_of(job.store)
        if recipe is not None:
            assert site.choice is not None, "`_prepare` chose"
            placement = site.certificate.placement
            server = make_server(
                recipe,
                self._data / "server",
                provider=site.choice.provider,
                log=self._log.with_name(f"{self._log.stem}-server.log"),
                cores=placement.server_cores or (),
                limits=job.limits or placement.limits,
                progress=note,
                server_network=site.server_network,
                allow_exposed=site.allow_exposed,
                nodes=job.nodes,
                hosts=rules.hosts,
                at=None if site.clients is None else site.clients.address,
            )
            self._server = as_up_server(recipe, server)
        self._requests = RequestHandler(
            self._server,
            self._disk,
            self._objects,
            site.clients,
            self._listen,
            self._limit_memory if self._own_limits else None,
        )

    def __enter__(self) -> MeasuringProcess:
        self._log.parent.mkdir(exist_ok=True)
        shutil.rmtree(self._data, ignore_errors=True)
        self._data.mkdir(parents=True)
        self._disk.mount()
        allow_passage(self._log.parents[1], self._data.parent, self._data)
        with ExitStack() as undone:
            undone.callback(self._disk.unmount)
            if self._server is not None:
                undone.enter_context(self._server)
                self._disk.sync()
                self._listen(True)
            self._start(None if self._server is None else serving(self._server))
            undone.pop_all()
        return self

    def _listen(self, on: bool) -> None:
        """Start or stop watching the server's current processes, which change at a restart."""
        if self._heartbeat is not None:
            self._heartbeat.__exit__(None, None, None)
            self._heartbeat = None
        if on and self._server is not None:
            self._heartbeat = Heartbeat(self._server)
            self._heartbeat.__enter__()

    def answer(self, message: object) -> bool:
        """Do what the measuring process requests and reply; False if it is no request."""
        answer = self._requests.answer(message)
        if answer is not None:
            self._pipe.send(answer)
        return answer is not None

    def _start(self, serving: Serving | None) -> None:
        ours, theirs = Pipe()
        self._pipe: Connection[Any, Any] = ours
        with self._output.opened() as log, theirs:
            arguments = str(theirs.fileno()), str(os.getpid())
            experiments = {type(trial.experiment) for trial in self._job.trials}
            command = command_of(
                self._job.store, *arguments, experiments=experiments, packages=self._packages
            )
            network = None if self._server_network is None else self._server_network.network
            files = () if network is None else network.files
            argv = command.argv if network is None else network.enter(command.argv)
            if self._own_limits:
                self._groups = make_groups(self._own_limits, group_name())
            self._child = subprocess.Popen(
                command_in_groups(self._groups, argv) if self._groups else argv,
                pass_fds=(theirs.fileno(), *files),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**command.env, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
                umask=0o077,
            )
        spec = spec_of(self._job, self._rules, self._certificate, self._data, serving)
        with suppress(BrokenPipeError):  # it died at once: `end_reason` tells
            self._pipe.send(data_of(self._job))  # by itself: a job names modules of its store
            self._pipe.send(spec)

    def __exit__(self, *exc: object) -> None:
        try:
            if self._child.poll() is None:
                # Without an error the process ends by itself.
                at_once = exc[0] is not None or self.server_fault(suspected=False) is not None
                try:
                    self._child.wait(timeout=0 if at_once else 30)
                except subprocess.TimeoutExpired:
                    self.kill()
            self._pipe.close()
        finally:
            self._memory_use = memory_use(self._groups)
            remove(self._groups)
            self._objects.stop()
            self._listen(False)
            if self._server is not None:
                # Its data is deleted: only a healthy server is stopped gracefully.
                # One that waited for turns is closed when another is interrupted.
                ended = isinstance(exc[1], KeyboardInterrupt | GeneratorExit)
                if self._fault is None and not ended:
                    self._server.stop()
                else:
                    self._server.abandon()
            self._disk.unmount()
        shutil.rmtree(self._data, ignore_errors=True)

    def kill(self) -> None:
        """Kill the measuring process and everything that it started."""
        if self._child.returncode is not None:
            return  # it was ended before
        os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()

    @property
    def _own_limits(self) -> Limits | None:
        """Limits of the measuring process itself."""
        return self._job.limits if self._server is None else None

    def _limit_memory(self, limit_bytes: int) -> None:
        self._peak_bytes = memory_use(self._groups).get("memory_peak_bytes")
        try:
            change_memory(self._groups, limit_bytes)
        except NoControlGroup as error:
            raise Unsupported(str(error)) from error

    def server_facts(self) -> Mapping[str, Any] | None:
        """Facts about the server for the results, or about the limits of the measuring process;
        None without either."""
        if limits := self._own_limits:
            cpus = {} if limits.cpus is None else {"cpus": limits.cpus}
            peak = {} if self._peak_bytes is None else {"memory_peak_bytes": self._peak_bytes}
            use = {**(memory_use(self._groups) or self._memory_use), **peak}
            return {"limits": f"{limits}: applied by control groups", **cpus, **use}
        if self._server is None or self._choice is None:
            return None
        starts_it = self._choice.provider is not Provider.EXTERNAL
        cores = list(self._certificate.placement.server_cores or ()) if starts_it else []
        return {**self._server.facts(), "why": self._choice.why, "cores": cores}

    def server_fault(self, *, suspected: bool) -> str | None:
        """The fault of the server; None if it is healthy, or there is none.

        suspected: a trial has just failed or met errors. Wait for a moment, because a dying server
            closes its connections before it ends, and then until the server answers or has long
            been silent.
        """
        if self._server is None or self._heartbeat is None or self._fault is not None:
            return self._fault
        ends = time.monotonic() + (_DYING_S if suspected else 0.0)
        while self._server.is_alive():
            if time.monotonic() >= ends and (not suspected or self._server.is_answering()):
                return None
            if self._heartbeat.silence_s() >= heartbeat.SILENCE_S:
                self._fault = SERVER_SILENT
                return self._fault
            time.sleep(_POLL_S / 5)
        self._fault = SERVER_ENDED
        return self._fault

    def server_log(self) -> str:
        """The end of the server's log, in parentheses; empty without a log."""
        path = self._log.with_name(f"{self._log.stem}-server.log")
        last = _tail(path)
        return f" ({path.name} ends: {' | '.join(last)})" if last else ""

    def _watch(self, since_dead: float | None) -> float | None:
        """Check the server during a trial. Returns the time at which it was found dead
        (`time.monotonic`); the trial then has a moment to report its errors."""
        if self._server is None or self._heartbeat is None or not self.watched:
            return None
        if not self._server.is_alive():
            since_dead = since_dead or time.monotonic()
            if time.monotonic() - since_dead > _MOURNING_S:
                self._fault = SERVER_ENDED
        elif self._heartbeat.silence_s() >= heartbeat.SILENCE_S:
            self._fault = SERVER_SILENT
        return since_dead

    def messages(self, timeout_s: float) -> Iterator[object]:
        """Messages from the process until it ends or a trial takes longer than `timeout_s`. In the
        latter case the last message holds what the trial has measured by then. Requesting the next
        message acknowledges the previous one."""
        since, dead = time.monotonic(), None
        while True:
            interrupts.check()
            message = None
            if self._pipe.poll(_POLL_S):
                try:
                    message = self._pipe.recv()
                except (EOFError, ConnectionResetError):
                    return
                if isinstance(message, TrialStarted | Waiting):
                    since, self._overdue = time.monotonic(), None
                yield message
                if isinstance(message, Waiting):
                    since = time.monotonic()  # its turns were not its own time
                if isinstance(message, Finished):
                    with suppress(BrokenPipeError, ConnectionResetError):  # it has ended
                        self._pipe.send(Ack())
            dead = self._watch(dead)
            if isinstance(message, Finished) and not message.overdue:
                continue  # all trials that have ended are read, however late
            late_s = time.monotonic() - since - timeout_s
            if late_s > 0:
                self._overdue = timeout_s
                os.kill(self._child.pid, TIME_IS_UP)  # again and again: it may have been sending
            ended = isinstance(message, Finished)
            if ended or self._fault is not None or late_s > _UNWINDING_S:
                self.kill()
                return

    def send(self, message: object) -> bool:
        """Send a message; False if the process has ended."""
        try:
            self._pipe.send(message)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def turn(self, key: str, turn: Turn) -> TurnResult | None:
        """Have a waiting load take a turn. Returns None if the process, its server or the turn has
        ended early; the process is then ended, and `end_reason` gives the reason."""
        if not self.send(GiveTurn(key, turn)):
            return None
        limit_s = _TURN_S + turn.length_ns / 1e9
        since, dead = time.monotonic(), None
        while True:
            interrupts.check()
            if self._pipe.poll(_POLL_S):
                try:
                    message = self._pipe.recv()
                except (EOFError, ConnectionResetError):
                    return None
                if isinstance(message, TurnResult):
                    return message
                continue
            dead = self._watch(dead)
            if time.monotonic() - since > limit_s:
                self._stuck_s = limit_s
            if self._stuck_s is not None or self._fault is not None:
                self.kill()
                return None

    def end_reason(self) -> str:
        """The reason why the process ended before its trials did."""
        if self._stuck_s is not None:
            return f"{STUCK} {self._stuck_s:.0f} s"
        if self._fault is not None:
            return f"{self._fault}{self.server_log()}"
        if self._overdue is not None:
            return f"{OVERDUE} = {self._overdue:g}"
        code = self._child.returncode
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._output.settle()
        last = (_tail(self._log) or ["its log is empty"])[-1]
        return f"{PROCESS_ENDED} with {how}: {last} (log: {self._log.name})"


def _tail(log: Path) -> list[str]:
    """The last lines of a log, without control characters."""
    try:
        text = log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
    except FileNotFoundError:
        return []
    lines = ("".join(c if c.isprintable() else " " for c in line) for line in text.splitlines())
    return [line.strip() for line in lines if line.strip()][-_LOG_TAIL_LINES:]


def command_of(
    store: type[Store],
    *arguments: str,
    experiments: Iterable[type[Experiment]] = (),
    packages: Path | None = None,
) -> environments.PythonCommand:
    """The command of the measuring process, in the store's own environment if it has one. The
    packages of these experiments can be imported there too. packages: see `JobSite`."""
    module = "vectrial.worker.worker"
    if store.environment is None:
        command = environments.PythonCommand(program(module, *arguments), for_measuring())
    else:
        own = environments.command(
            store.environment,
            "vectrial.util.program",
            (module, *arguments),
            classes=(store, *experiments),
        )
        command = replace(own, env=for_measuring(own.env))
    return command if packages is None else replace(command, env=importable(packages, command.env))


def data_of(job: Job) -> JobData:
    return JobData(
        job.dataset,
        job.rows,
        job.queries,
        metadata=job.metadata,
        own_ids=job.existing is None,
        client=job.store.kind == "server",
    )


def spec_of(
    job: Job, rules: Rules, certificate: Certificate, data_dir: Path, serving: Serving | None
) -> JobSpec:
    return JobSpec(
        store=reference(job.store),
        index=job.index,
        dataset=job.dataset,
        k=rules.k,
        seed=rules.seed + job.repeat,
        batch_rows=rules.batch_rows,
        data_dir=data_dir,
        certificate=certificate,
        trials=tuple(
            TrialSpec(
                trial.row.key,
                trial.experiment.for_point(),
                trial.point,
                trial.row.lane,
                trial.in_turns,
            )
            for trial in job.trials
        ),
        server=serving,
        durability=job.durability,
        repeat_queries=rules.repeat_queries,
        warm_up_s=job.warm_up_s,
        limited=serving is None and job.limits is not None,
        existing=job.existing,
    )
