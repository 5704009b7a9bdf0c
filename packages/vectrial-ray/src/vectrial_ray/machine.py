"""One machine of a Ray cluster: measures jobs as `vectrial run` does on this machine, and reports
on them. An actor of Ray's, which calls its methods from several threads at once."""

from __future__ import annotations

import os
import platform
import queue
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from vectrial.datasets import library, truth
from vectrial.datasets.exact import ExactSearch, Hits, RowBlock, SearchedRows
from vectrial.engine.parts import LoadPart, Order
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.model.errors import VectrialError
from vectrial.model.placement import Ceiling, Placement
from vectrial.model.store import Store
from vectrial.plan.model import Job
from vectrial.run.job import JobRunner
from vectrial.run.place import PLACES
from vectrial.run.redact import Secrecy
from vectrial.servers.limits import remove_orphans
from vectrial.stores.registry import STORES
from vectrial.suite.model import Rules
from vectrial.telemetry.environment import environment_facts
from vectrial.util.file_modes import private_files
from vectrial.util.paths import home
from vectrial.util.version import version
from vectrial.workload.ceiling import Searches, measure
from vectrial_ray import fitness
from vectrial_ray.block_search import BlockSearch
from vectrial_ray.events import Began, JobEnded, LogFile, Recorded, Reporter
from vectrial_ray.load import Peer, RayClients
from vectrial_ray.sender import Sender
from vectrial_ray.transfer import Incoming, has

#: How long `events` waits for the first.
WAIT_S = 1.0
#: Ray sets it to the processors that an actor asks for; elsewhere libraries choose.
_SET_BY_RAY = "OMP_NUM_THREADS"
_LOG_BYTES = 8 << 20
_GIB = 2**30


def _plug_ins() -> str:
    """The packages that bring stores, experiments or places, Vectrial aside, each with its
    version."""
    groups = (STORES, EXPERIMENTS, PLACES)
    packages = {registered.package(name) for registered in groups for name in registered}
    return ", ".join(map(_with_version, sorted(packages - {"vectrial"}))) or "none"


def _with_version(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:  # found by its path, and not installed
        return package


@dataclass(frozen=True, order=True)
class MachineKind:
    """The properties that must match for two machines' results to be comparable."""

    cpu: str
    processors: int
    memory_gib: int

    def __str__(self) -> str:
        return f"{self.processors} × {self.cpu}, {self.memory_gib} GiB"


def kind_of(environment: dict[str, Any]) -> MachineKind:
    """The kind of a machine with these facts; see `environment_facts`."""
    cpu, memory = environment["cpu"], environment["memory"]
    return MachineKind(
        str(cpu["model"]),
        len(cpu["affinity"] or ()) or int(cpu["logical"]),
        round(memory["total_bytes"] / _GIB),
    )


@dataclass(frozen=True)
class MachineFacts:
    """Facts about a machine. versions: software versions that must match on all machines."""

    kind: MachineKind
    versions: dict[str, str]
    environment: dict[str, Any]


def own_folder(parent: Path) -> Path:
    """Make a new folder for this process, after removing the folders of this machine's ended
    processes: a killed actor leaves its own."""
    host = socket.gethostname()
    for folder in parent.glob(f"{host}-*-*"):
        pid = folder.name.removeprefix(f"{host}-").partition("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)
    parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{host}-{os.getpid()}-", dir=parent))


class Machine:
    """The actor on a machine. It measures one job at a time."""

    def __init__(self) -> None:
        os.environ.pop(_SET_BY_RAY, None)
        remove_orphans()
        # On a disk, where what is measured belongs; a temporary folder may be in memory.
        self._folder = own_folder(home() / "ray")
        self._events: queue.Queue[object] = queue.Queue()
        self._runner: JobRunner | None = None
        self._sender: Sender | None = None
        self._search: BlockSearch | None = None
        self._clients: RayClients | None = None
        self._incoming: dict[str, Incoming] = {}

    def about(self) -> MachineFacts:
        """Facts about this machine."""
        import ray

        environment = environment_facts()
        versions = {
            "vectrial": version(),
            "python": platform.python_version(),
            "ray": ray.__version__,
            "plug-ins": _plug_ins(),
        }
        return MachineFacts(kind_of(environment), versions, environment)

    def clock_ns(self) -> int:
        """The machine's monotonic clock, which its timings use."""
        return time.perf_counter_ns()

    # -- whether it is fit ---------------------------------------------------------------------

    def echo(self, address: str) -> int:
        """See `fitness.echo`."""
        return fitness.echo(address)

    def ping_us(self, address: str, port: int) -> float:
        """See `fitness.ping_us`."""
        return fitness.ping_us(address, port)

    def interrupted_share(self) -> float:
        """See `fitness.interrupted_share`."""
        return fitness.interrupted_share()

    # -- data ----------------------------------------------------------------------------------

    def lacks(self, name: str, fingerprint: str) -> bool:
        """True if this machine lacks a dataset with this content."""
        return not has(name, fingerprint)

    def receive(self, name: str, file: str, block: bytes) -> None:
        """Take the next block of a dataset's file."""
        if name not in self._incoming:
            self._incoming[name] = Incoming(name)
        self._incoming[name].write(file, block)

    def received(self, name: str) -> None:
        """Publish a dataset that has arrived completely."""
        self._incoming.pop(name).publish()

    def lacking_truths(self, names: Sequence[str], fingerprint: str) -> list[str]:
        """The files of a dataset's truths, among `names`, that this machine lacks."""
        there = truth.files_of(fingerprint)
        return [name for name in names if name not in there]

    def receive_truth(self, name: str, content: bytes) -> None:
        """Take a file of a dataset's truth."""
        truth.FilesOnDisk().put(name, content)

    # -- jobs ----------------------------------------------------------------------------------

    def send_by(self, machines: Sequence[Peer], address: str) -> None:
        """Have these machines send later jobs' loads; they reach this one at `address`."""
        self._clients = RayClients(machines, address) if machines else None

    def begin(self, rules: Rules, stores: Sequence[type[Store]], allow_exposed: bool) -> None:
        """Get ready for the jobs of a suite that uses these stores.

        Raises:
            UserError: its placement does not fit this machine, or a secret cannot be read.
        """
        secrecy = Secrecy.for_stores(stores)
        self._runner = JobRunner(
            rules,
            self._folder,
            Reporter(self._events),
            lambda record: self._events.put(Recorded(secrecy.record(record))),
            secrecy,
            allow_exposed=allow_exposed,
            clients=self._clients,
        )

    def take(self, job: Job) -> None:
        """Measure a job in the background; `events` reports on it."""
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
        except Exception as error:  # noqa: BLE001 - raised where the run is
            fault = VectrialError(f"{type(error).__name__}: {error}")
        self._send_logs()
        self._events.put(JobEnded(fault))

    def _send_logs(self) -> None:
        for log in sorted((self._folder / "logs").glob("*.log")):
            self._events.put(LogFile(log.name, log.read_bytes()[-_LOG_BYTES:]))
            log.unlink()

    def events(self) -> list[object]:
        """Events since the last call; if there are none, waits for a moment."""
        found: list[object] = []
        try:
            found.append(self._events.get(timeout=WAIT_S))
            while True:
                found.append(self._events.get_nowait())
        except queue.Empty:
            return found

    # -- exact neighbours ----------------------------------------------------------------------

    def scan_begin(self, question: ExactSearch, name: str, fingerprint: str) -> bool:
        """Begin a search among a dataset's rows. True if this machine has and reads the rows; else
        they come with each block."""
        rows = None
        if has(name, fingerprint):
            dataset = library.load(name)
            rows = SearchedRows(dataset.vectors, dataset.ids)
        self._search = BlockSearch(question, rows)
        return rows is not None

    def scan(self, block: RowBlock, rows: SearchedRows | None) -> None:
        """See `BlockSearch.scan`."""
        self._searching().scan(block, rows)

    def scan_hits(self) -> Hits:
        """See `BlockSearch.hits`."""
        return self._searching().hits()

    def _searching(self) -> BlockSearch:
        assert self._search is not None, "`scan_begin` was called"
        return self._search

    # -- loads ---------------------------------------------------------------------------------

    def ceiling(self, searches: Searches, placement: Placement) -> Ceiling:
        """The rate at which this machine can send; see `vectrial.workload.ceiling.measure`."""
        return measure(searches, placement.resolved())

    def load_connect(self, order: Order, machine: int, machines: int) -> None:
        """Connect and warm up for a load, in the background; then wait for `load_begin`."""
        self._sender = Sender(order, machine, machines)

    def load_is_ready(self) -> bool:
        """See `Sender.is_ready`."""
        return self._sending().is_ready()

    def load_begin(self, at_ns: int) -> None:
        """See `Sender.begin`."""
        self._sending().begin(at_ns)

    def load_end(self) -> tuple[LoadPart, int]:
        """See `Sender.end`."""
        return self._sending().end()

    def _sending(self) -> Sender:
        assert self._sender is not None, "`load_connect` was called"
        return self._sender

    def close(self) -> None:
        """Remove everything made on this machine."""
        for incoming in self._incoming.values():
            incoming.discard()
        shutil.rmtree(self._folder, ignore_errors=True)
