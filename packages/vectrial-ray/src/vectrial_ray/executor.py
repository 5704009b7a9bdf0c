"""Jobs of a run on the machines of a Ray cluster, each alone on its machine."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vectrial.datasets import library, truth
from vectrial.model.errors import UserError, VectrialError
from vectrial.model.phase import Live
from vectrial.plan.model import Job
from vectrial.results.writer import TrialRecord
from vectrial.run.runner import Conditions
from vectrial.suite.model import Suite
from vectrial.util import interrupts
from vectrial.util.formatting import plural
from vectrial.worker.messages import Progress
from vectrial_ray.cluster import Joined, connected, join, leave, of_one_kind
from vectrial_ray.events import Began, JobEnded, LogFile, NoteLine, Recorded, TrialBegan
from vectrial_ray.machine import MachineKind, kind_of
from vectrial_ray.transfer import blocks_of

_POLL_S = 0.25
#: A job with which so many machines were lost is not given to another.
_MOST_LOSSES = 2
_CLOSE_S = 20.0


class NoMachine(VectrialError):
    """All machines are lost."""


@dataclass(frozen=True)
class QueuedJob:
    """A job to be measured: its number among all jobs, and how many machines it has lost."""

    job: Job
    number: int
    losses: int = 0


#: Machines that measure a job together.
Group = tuple[Joined, ...]


class RayCluster:
    """The machines of a Ray cluster that measure the jobs of a run. See `cluster`."""

    def __init__(self, machines: Sequence[Joined], unused: int) -> None:
        self.machines = tuple(machines)
        self._unused = unused

    @property
    def environment(self) -> dict[str, Any]:
        """Facts about a machine (see `environment_facts`), with the versions and the number of
        measuring machines."""
        first = self.machines[0].about
        cluster = {"machines": len(self.machines), "ray": first.versions["ray"]}
        return {**first.environment, "cluster": cluster}

    def execute(self, jobs: Sequence[Job], suite: Suite, under: Conditions) -> None:
        """Measure as many jobs at once as there are machines; see `vectrial.run.runner`.

        Raises:
            NoMachine: the last machine is lost. What was recorded until then is kept.
        """
        number = plural(len(self.machines), "machine")
        under.watcher.note(f"{number} of {self.machines[0].about.kind}")
        if self._unused:
            under.watcher.note(f"! {plural(self._unused, 'machine')} of another kind: not used")
        _JobsUnderWay(self.machines, jobs, suite, under).run()


@contextmanager
def cluster(address: str, folder: Path | None = None) -> Iterator[RayCluster]:
    """The Ray cluster at an address ("auto": the cluster of this machine), while the block lasts.

    folder: the folder of a run to resume; only machines of the kind that it began on are used.

    Raises:
        UserError: it cannot be used; see `connected`, `join` and `of_one_kind`.
    """
    with connected(address):
        everyone = join()
        try:
            machines = of_one_kind(everyone, _kind_before(folder))
            yield RayCluster(machines, len(everyone) - len(machines))
            _close([machine.actor for machine in everyone])
        finally:
            leave([machine.actor for machine in everyone])


def _close(actors: Sequence[Any]) -> None:
    import ray

    ray.wait([actor.close.remote() for actor in actors], num_returns=len(actors), timeout=_CLOSE_S)


def _kind_before(folder: Path | None) -> MachineKind | None:
    path = None if folder is None else folder / "environment.json"
    if path is None or not path.is_file():
        return None
    return kind_of(json.loads(path.read_text(encoding="utf-8")))


def groups(machines: Sequence[Joined], clients: int) -> list[Group]:
    """Groups of machines that measure together: the first has the store, the others send.

    Raises:
        UserError: there are too few machines for a group.
    """
    size = 1 + clients
    if len(machines) < size:
        raise UserError(
            f"{clients} client machines and one for the store are {size}, and the cluster has"
            f" {len(machines)} of one kind",
            where="placement.client_machines",
            remedy="start more machines, or ask for fewer",
        )
    return [tuple(machines[at : at + size]) for at in range(0, len(machines) - size + 1, size)]


def _lives(machine: Joined) -> bool:
    import ray

    try:
        ray.get(machine.actor.clock_ns.remote(), timeout=_CLOSE_S)
    except ray.exceptions.RayError:
        return False
    return True


class _JobsUnderWay:
    """Jobs in progress on machines."""

    def __init__(
        self, machines: Sequence[Joined], jobs: Sequence[Job], suite: Suite, under: Conditions
    ) -> None:
        self._suite, self._under, self._of = suite, under, len(jobs)
        self._free = groups(machines, suite.placement.client_machines)
        self._queue = deque(QueuedJob(job, number) for number, job in enumerate(jobs, 1))
        #: By Ray's reference to the next events of the machine that measures it.
        self._busy: dict[Any, tuple[Group, QueuedJob]] = {}
        #: Machines and names of datasets that they have.
        self._has_data: set[tuple[str, str]] = set()

    def run(self) -> None:
        import ray

        self._begin()
        while self._queue or self._busy:
            interrupts.check()
            self._give_out()
            done, _ = ray.wait(list(self._busy), timeout=_POLL_S)
            for reference in done:
                group, queued = self._busy.pop(reference)
                try:
                    events = ray.get(reference)
                except ray.exceptions.RayActorError:
                    self._lost(group[0], queued)
                    continue
                queued, ended = self._follow(group[0], queued, events)
                if ended:
                    self._free.append(group)
                else:
                    self._busy[group[0].actor.events.remote()] = group, queued

    def _begin(self) -> None:
        import ray

        stores = tuple(dict.fromkeys(queued.job.store for queued in self._queue))
        for machine, *clients in self._free:
            begin = machine.actor.begin.remote
            try:
                ray.get(machine.actor.send_by.remote(clients, machine.address))
                ray.get(begin(self._suite.rules, stores, self._under.allow_exposed))
            except ray.exceptions.RayTaskError as error:
                raise error.cause or error from error

    def _give_out(self) -> None:
        import ray

        while self._queue and self._free:
            group, queued = self._free.pop(0), self._queue.popleft()
            machine, *clients = group
            if gone := [one for one in clients if not _lives(one)]:
                # The others of the group are not enough; the job itself lost nothing.
                self._note_lost(gone[0])
                self._queue.appendleft(queued)
                continue
            try:
                self._send_data(machine, queued.job.dataset)
                ray.get(machine.actor.take.remote(queued.job))
            except ray.exceptions.RayActorError:
                self._lost(machine, queued)
                continue
            self._busy[machine.actor.events.remote()] = group, queued
        if self._queue and not self._busy:
            raise NoMachine(
                "no machine of the cluster is left: start machines again, then go on with --resume"
            )

    def _send_data(self, machine: Joined, name: str) -> None:
        """Copy a dataset to a machine that does not share our data folders, where the dataset is
        prepared and its truth may be known."""
        import ray

        if (machine.name, name) in self._has_data:
            return
        fingerprint = library.load(name).fingerprint
        if ray.get(machine.actor.lacks.remote(name, fingerprint)):
            self._under.watcher.note(f"{machine.name}: sending dataset '{name}'")
            for file, block in blocks_of(name):
                interrupts.check()
                ray.get(machine.actor.receive.remote(name, file, block))
            ray.get(machine.actor.received.remote(name))
        known = truth.files_of(fingerprint)
        for file in ray.get(machine.actor.lacking_truths.remote(list(known), fingerprint)):
            ray.get(machine.actor.receive_truth.remote(file, known[file].read_bytes()))
        self._has_data.add((machine.name, name))

    def _follow(
        self, machine: Joined, queued: QueuedJob, events: Sequence[object]
    ) -> tuple[QueuedJob, bool]:
        """Record what happened to a job. Returns the rest of the job, and whether it ended."""
        watcher = self._under.watcher
        for event in events:
            match event:
                case Began():
                    watcher.note(f"{machine.name}: {queued.job.label}")
                    watcher.job(queued.job, queued.number, self._of)
                case TrialBegan(trial):
                    watcher.started(trial)
                case Progress():
                    watcher.progress(event)
                case Live():
                    watcher.live(event)
                case NoteLine(text):
                    watcher.note(f"{machine.name}: {text}")
                case LogFile(name, content):
                    self._keep_log(name, content)
                case Recorded(record):
                    self._under.write(_placed(record, machine.name))
                    queued = _without(queued, record.row.key)
                case JobEnded(fault):
                    if fault is not None:
                        raise fault
                    return queued, True
        return queued, False

    def _keep_log(self, name: str, content: bytes) -> None:
        log = self._under.folder / "logs" / Path(name).name
        log.parent.mkdir(exist_ok=True)
        with log.open("ab") as stream:
            stream.write(content)
        self._under.secrecy.file(log)

    def _note_lost(self, machine: Joined) -> None:
        self._under.watcher.note(f"! {machine.name} ({machine.address}) is lost")

    def _lost(self, machine: Joined, queued: QueuedJob) -> None:
        """Queue the remaining trials of a lost machine for another machine."""
        self._note_lost(machine)
        queued = replace(queued, losses=queued.losses + 1)
        if not queued.job.trials:
            return
        if queued.losses < _MOST_LOSSES:
            self._queue.appendleft(queued)
            return
        for trial in queued.job.trials:
            why = f"{machine.name} was lost, and another machine before it, while it measured this"
            self._under.write(TrialRecord(trial.row, "failed", why))


def _placed(record: TrialRecord, machine: str) -> TrialRecord:
    """A trial's record with the machine of the cluster on which its server, if any, ran."""
    if record.server is None:
        return record
    return replace(record, server={**record.server, "machine": machine})


def _without(queued: QueuedJob, key: str) -> QueuedJob:
    trials = tuple(trial for trial in queued.job.trials if trial.row.key != key)
    return replace(queued, job=replace(queued.job, trials=trials))
