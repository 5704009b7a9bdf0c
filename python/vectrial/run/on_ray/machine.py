"""One machine of a Ray cluster: measures jobs as `vectrial run` does on this machine, and tells of
them. An actor of Ray's, which calls its methods from several threads at once."""

from __future__ import annotations

import os
import platform
import queue
import shutil
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vectrial.datasets.library import transfer
from vectrial.engine.client import Share
from vectrial.engine.parts import Order, Part
from vectrial.model.client_limits import Ceiling
from vectrial.model.errors import StoreError, VectrialError
from vectrial.model.live import Live
from vectrial.model.placement import Placement
from vectrial.model.store import Store
from vectrial.plan.model import Job, PlannedTrial
from vectrial.results.writer import TrialRecord
from vectrial.run.job import JobRunner
from vectrial.run.on_ray.load import ClientMachine, RayClients
from vectrial.run.redact import Secrecy
from vectrial.run.watcher import Watcher
from vectrial.servers.limits import sweep
from vectrial.suite.model import Suite
from vectrial.telemetry.environment import environment_facts
from vectrial.util.file_modes import private_files
from vectrial.util.paths import home
from vectrial.util.version import version
from vectrial.worker.messages import Progress
from vectrial.workload.ceiling import measure

#: How long `events` waits for the first.
WAIT_S = 1.0
#: Ray sets it to the processors that an actor asks for; elsewhere libraries choose.
_SET_BY_RAY = "OMP_NUM_THREADS"
_LOG_BYTES = 8 << 20
#: A load that is not begun for so long was given up by whoever ordered it.
_ABANDONED_S = 120.0
_GIB = 2**30
_PING_BYTES, _PINGS, _PING_S = 64, 200, 5.0
#: A gap between two readings of the clock that is longer than this is somebody else's.
_NOISE_NS, _GAP_NS = 500_000_000, 100_000


@dataclass(frozen=True, order=True)
class Kind:
    """What makes figures of two machines comparable."""

    cpu: str
    processors: int
    memory_gib: int

    def __str__(self) -> str:
        return f"{self.processors} × {self.cpu}, {self.memory_gib} GiB"


def kind_of(environment: dict[str, Any]) -> Kind:
    """The kind of a machine with these facts; see `environment_facts`."""
    cpu, memory = environment["cpu"], environment["memory"]
    return Kind(
        str(cpu["model"]),
        len(cpu["affinity"] or ()) or int(cpu["logical"]),
        round(memory["total_bytes"] / _GIB),
    )


@dataclass(frozen=True)
class About:
    """Facts about a machine. versions: of what all machines must have alike."""

    kind: Kind
    versions: dict[str, str]
    environment: dict[str, Any]


@dataclass(frozen=True)
class Note:
    """A line for whoever looks on."""

    text: str


@dataclass(frozen=True)
class Began:
    """The job is measured from now on."""


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
class Ended:
    """The job has ended, after which nothing is told of it. fault: why its other trials could not
    be measured."""

    fault: VectrialError | None = None


class _Teller(Watcher):
    """Puts what happens into a queue."""

    def __init__(self, events: queue.Queue[object]) -> None:
        self._events = events

    def job(self, job: Job, number: int, of: int) -> None:
        """Said by whoever gave the job."""

    def progress(self, progress: Progress) -> None:
        self._events.put(progress)

    def live(self, live: Live) -> None:
        self._events.put(live)

    def started(self, trial: PlannedTrial) -> None:
        self._events.put(TrialBegan(trial))

    def finished(self, record: TrialRecord) -> None:
        """Told as `Recorded`."""

    def note(self, text: str) -> None:
        self._events.put(Note(text))


class _Load:
    """This machine's share of a load, sent in the background."""

    def __init__(self, order: Order, machine: int, machines: int) -> None:
        self._begin: queue.Queue[int] = queue.Queue()
        self._ready = threading.Event()
        self._at_ns = self._began_ns = 0
        self._part: Part | None = None
        self._fault: Exception | None = None
        share = Share(machine, machines, self._wait, self._was_begun)
        self._thread = threading.Thread(target=self._send, args=(order, share), daemon=True)
        self._thread.start()

    def _send(self, order: Order, share: Share) -> None:
        try:
            self._part = order.send(share)
        except Exception as error:  # noqa: BLE001 - raised where the load was ordered
            self._fault = error
        self._ready.set()

    def _wait(self) -> int:
        self._ready.set()
        try:
            self._at_ns = self._begin.get(timeout=_ABANDONED_S)
        except queue.Empty:
            raise StoreError("nobody began the load") from None
        return self._at_ns

    def _was_begun(self, at_ns: int) -> None:
        self._began_ns = at_ns

    def is_ready(self) -> bool:
        if self._fault is not None:
            raise self._fault
        return self._ready.is_set()

    def begin(self, at_ns: int) -> None:
        self._begin.put(at_ns)

    def end(self) -> tuple[Part, int]:
        self._thread.join()
        if self._part is None:
            raise self._fault or StoreError("it sent nothing")
        return self._part, max(0, self._began_ns - self._at_ns)


class Machine:
    """The actor. One job is measured at a time."""

    def __init__(self) -> None:
        os.environ.pop(_SET_BY_RAY, None)
        sweep()
        parent = home() / "ray"
        parent.mkdir(parents=True, exist_ok=True)
        # On a disk, where what is measured belongs; a temporary folder may be in memory.
        self._folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=parent))
        self._events: queue.Queue[object] = queue.Queue()
        self._runner: JobRunner | None = None
        self._load: _Load | None = None
        self._clients: RayClients | None = None
        self._incoming: dict[str, transfer.Incoming] = {}

    def about(self) -> About:
        """What it is."""
        import ray

        environment = environment_facts()
        versions = {
            "vectrial": version(),
            "python": platform.python_version(),
            "ray": ray.__version__,
        }
        return About(kind_of(environment), versions, environment)

    def clock_ns(self) -> int:
        """Its monotonic clock, by which it times."""
        return time.perf_counter_ns()

    # -- whether it is fit ---------------------------------------------------------------------

    def echo(self, address: str) -> int:
        """Answer what comes to a port of this address of its own, which is returned, for one
        connection."""
        server = socket.create_server((address, 0))

        def serve() -> None:
            with server, server.accept()[0] as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while block := connection.recv(_PING_BYTES):
                    connection.sendall(block)

        threading.Thread(target=serve, daemon=True).start()
        return int(server.getsockname()[1])

    def ping_us(self, address: str, port: int) -> float:
        """Median time that a message takes to another machine's `echo` and back, in
        microseconds."""
        times = []
        with socket.create_connection((address, port), timeout=_PING_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(_PINGS):
                sent = time.perf_counter_ns()
                connection.sendall(b"x" * _PING_BYTES)
                got = 0
                while got < _PING_BYTES:
                    got += len(connection.recv(_PING_BYTES)) or _PING_BYTES
                times.append((time.perf_counter_ns() - sent) / 1e3)
        return statistics.median(times)

    def taken_share(self) -> float:
        """Share of half a second in which a loop that does nothing else did not run, because
        something else had its processor."""
        begun = last = time.perf_counter_ns()
        taken = 0
        while last - begun < _NOISE_NS:
            now = time.perf_counter_ns()
            if now - last > _GAP_NS:
                taken += now - last
            last = now
        return taken / (last - begun)

    # -- data ----------------------------------------------------------------------------------

    def lacks(self, name: str, fingerprint: str) -> bool:
        """True if a dataset is not here with this content."""
        return not transfer.has(name, fingerprint)

    def receive(self, name: str, file: str, block: bytes) -> None:
        """Take the next block of a dataset's file."""
        if name not in self._incoming:
            self._incoming[name] = transfer.Incoming(name)
        self._incoming[name].write(file, block)

    def received(self, name: str) -> None:
        """The dataset is whole."""
        self._incoming.pop(name).publish()

    # -- jobs ----------------------------------------------------------------------------------

    def begin(self, suite: Suite, stores: Sequence[type[Store]], allow_exposed: bool) -> None:
        """Get ready for the jobs of a suite, which use these stores.

        Raises:
            UserError: its placement does not fit this machine, or a secret cannot be read.
        """
        secrecy = Secrecy.of(stores)
        self._runner = JobRunner(
            suite,
            self._folder,
            _Teller(self._events),
            lambda record: self._events.put(Recorded(secrecy.record(record))),
            secrecy,
            allow_exposed=allow_exposed,
            clients=self._clients,
        )

    # -- loads ---------------------------------------------------------------------------------

    def ceiling(
        self,
        protocol: str,
        dim: int,
        k: int,
        in_flight: int,
        placement: Placement,
        dialect: dict[str, str],
    ) -> Ceiling:
        """What this machine can send; see `vectrial.workload.ceiling.measure`."""
        return measure(protocol, dim, k, in_flight, placement.resolved(), dialect)

    def load_connect(self, order: Order, machine: int, machines: int) -> None:
        """Connect and warm up for a load, in the background; then wait for `load_begin`."""
        self._load = _Load(order, machine, machines)

    def load_is_ready(self) -> bool:
        """True when it waits.

        Raises:
            VectrialError: it failed.
        """
        return self._the_load().is_ready()

    def load_begin(self, at_ns: int) -> None:
        """Send from this instant on."""
        self._the_load().begin(at_ns)

    def load_end(self) -> tuple[Part, int]:
        """Wait for the end of the load. Returns what was seen, and how late its last thread began,
        in ns.

        Raises:
            VectrialError: it failed.
        """
        return self._the_load().end()

    def _the_load(self) -> _Load:
        assert self._load is not None, "`load_connect` was called"
        return self._load

    # -- jobs of which others send the loads -----------------------------------------------------

    def send_by(self, machines: Sequence[ClientMachine], address: str) -> None:
        """From now on these send the loads of its jobs, and reach it at this address."""
        self._clients = RayClients(machines, address) if machines else None

    def take(self, job: Job) -> None:
        """Measure a job in the background; `events` tells of it."""
        assert self._runner is not None, "`begin` was called"
        work = threading.Thread(target=self._measure, args=(self._runner, job), daemon=True)
        work.start()

    def _measure(self, runner: JobRunner, job: Job) -> None:
        fault: VectrialError | None = None
        try:
            with private_files():
                runner.run(job, lambda: self._events.put(Began()))
        except VectrialError as error:
            fault = error
        except Exception as error:  # noqa: BLE001 - told where the run is
            fault = VectrialError(f"{type(error).__name__}: {error}")
        self._tell_logs()
        self._events.put(Ended(fault))

    def _tell_logs(self) -> None:
        for log in sorted((self._folder / "logs").glob("*.log")):
            self._events.put(LogFile(log.name, log.read_bytes()[-_LOG_BYTES:]))
            log.unlink()

    def events(self) -> list[object]:
        """What has happened since the last call; waits for a moment where nothing has."""
        found: list[object] = []
        try:
            found.append(self._events.get(timeout=WAIT_S))
            while True:
                found.append(self._events.get_nowait())
        except queue.Empty:
            return found

    def close(self) -> None:
        """Remove what was made here."""
        for incoming in self._incoming.values():
            incoming.discard()
        shutil.rmtree(self._folder, ignore_errors=True)
