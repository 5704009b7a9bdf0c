"""The measuring process: one job, inside the store's own environment.

The parent sends a `JobSpec` over a pipe and receives messages; it answers `Finished` with `Ack`.
Nothing crosses the pipe inside a timed sample. Run by
`vectrial.util.program` with FD PARENT. Imports only what a store's own environment has: numpy,
pyarrow, pydantic, psutil.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter_ns

from vectrial._engine import Judge
from vectrial.datasets import library, truth
from vectrial.gate import ExpectedRows, GateResult, Subject, run_gate
from vectrial.model.context import Context, fields_of
from vectrial.model.dataset import Dataset, Truth
from vectrial.model.errors import StoreError, Unsupported
from vectrial.model.faults import Crash, Fault, FaultEvent
from vectrial.model.file_categories import FileKind
from vectrial.model.filters import Filters
from vectrial.model.lane import Lane, writes_natively
from vectrial.model.objects import ObjectsAccess, ObjectsRequest
from vectrial.model.phase import State
from vectrial.model.refusals import untested_note
from vectrial.model.schema import Schema
from vectrial.model.store import Address, Store
from vectrial.model.trial import OVERDUE
from vectrial.stats.quantiles import withhold_quantiles
from vectrial.stores import registry
from vectrial.stores.attached import keys_of, open_existing
from vectrial.stores.common.temporary import close_store, temporary_store
from vectrial.telemetry.disk import store_bytes_by_kind
from vectrial.telemetry.machine import add_machine_metrics
from vectrial.telemetry.memory import forget_pages, give_back_free_memory
from vectrial.telemetry.phases import add_server_metrics, why_not_sampled
from vectrial.telemetry.process import ProcessTree, Sampler
from vectrial.util import formatting
from vectrial.util.arrow import load_without_pandas
from vectrial.util.process import die_with_parent
from vectrial.worker import ending
from vectrial.worker.ending import BlockTimer, TrialTimeUp
from vectrial.worker.job_data import JobData
from vectrial.worker.messages import (
    TIME_IS_UP,
    CutPower,
    FillDisk,
    Finished,
    JobSpec,
    LimitMemory,
    Serving,
    TrialSpec,
)
from vectrial.worker.parent import Parent
from vectrial.worker.turns import TurnTaking
from vectrial.worker.warm_up import load_first_rows, warm_up
from vectrial.workload import ingest as bulk
from vectrial.workload.live import BusyCores
from vectrial.workload.native import inserts


class _Measurement:
    """A running job: the store, its load, and the results of the gate."""

    def __init__(self, spec: JobSpec, pipe: Connection, dataset: Dataset) -> None:
        """dataset: the job's, which may no longer be found on the disk."""
        self.spec, self.dataset = spec, dataset
        self._sampler: Sampler | None = None
        self.kind = registry.resolve(spec.store)
        if spec.existing is not None:
            self.keys = keys_of(library.load(spec.dataset))
        self.schema = Schema(self.dataset.dim, self.dataset.metric, fields_of(self.dataset))
        self.data_dir = spec.data_dir / "data"
        self.data_dirs: tuple[Path, ...] = (self.data_dir,)
        self._loads = 0
        self.processes: Mapping[str, int] = {"client": os.getpid()}
        self.resident_in: Sequence[int] = (os.getpid(),)
        self.address: Address | None = None
        self._server_trees: list[ProcessTree] = []
        self._data_trees = [ProcessTree(os.getpid())]
        if spec.server is not None:
            self._serve(spec.server)
        self.store: Store | None = None
        self.version: str | None = None
        self.notes: tuple[str, ...] = ()
        self.loaded = False
        self.load: Mapping[str, float] | None = None
        self.gate: list[GateResult] | None = None
        self.baseline_rss_bytes: int | None = None
        self._cold = bool(spec.warm_up_s)
        self.empty_disk: Mapping[FileKind, int] = {}
        self.parent = Parent(pipe, BusyCores(self._server_cpu_s).cores)
        self.time_limit = BlockTimer(self.parent.is_sending)
        self._experiment = {trial.key: trial.experiment for trial in spec.trials}

    @property
    def _location(self) -> Path:
        """Location of the store. On a server each load is a new collection: a write that a lost
        node kept must not land among the rows of the next load."""
        return self.data_dir if self.address is None else self.data_dir / str(self._loads)

    def _serve(self, serving: Serving) -> None:
        """Use this server from now on."""
        self.address = replace(serving.address, read_only=self.spec.existing is not None)
        self.data_dirs = serving.data_dirs
        # The server first: the disk is counted with it.
        self.processes = {**serving.processes, "client": os.getpid()}
        self.resident_in = tuple(serving.processes.values())
        self._server_trees = [ProcessTree(pid) for pid in serving.processes.values()]
        for tree in self._server_trees:
            tree.usage()  # finds what the server has started
        self._data_trees = self._server_trees

    def _crash(self, how: Crash) -> Address:
        """End and restart the server; see `Context.crash`."""
        serving = self.parent.crash(how)
        self._serve(serving)
        if self._sampler is not None:
            self._sampler.follow(self.processes)
        return serving.address

    def _strike(self, node: int, fault: Fault, back: bool) -> FaultEvent:
        """Make or end a fault of a node; see `Context.strike`."""
        struck, serving = self.parent.strike(node, fault, back)
        if back:
            self._serve(serving)
            if self._sampler is not None:
                self._sampler.follow(serving.processes)
        return struck

    @contextmanager
    def _objects(self, key: str, request: ObjectsRequest) -> Iterator[ObjectsAccess]:
        """An object store, whose processes are sampled; see `Context.objects`."""
        with self.parent.objects(key, request) as access:
            if self._sampler is not None:
                self._sampler.follow({**self.processes, **access.processes})
            try:
                yield access
            finally:
                if self._sampler is not None:
                    self._sampler.follow(self.processes)

    def make(self, location: Path) -> Store:
        """A store at a location, with the suite's durability."""
        store = self.kind(location, self.address) if self.address else self.kind(location)
        store.durability = self.spec.durability
        return store

    def _server_cpu_s(self) -> float | None:
        """CPU seconds of the server's processes; None if it is not on this machine."""
        used = [tree.usage(find_children=False) for tree in self._server_trees]
        known = [usage.cpu_s for usage in used if usage is not None]
        return sum(known) if known else None

    def run(self) -> None:
        """Measure every trial. If the store fails, its trial fails and the next one follows.

        A trial that ends before the gate is sent after it. The gate runs at the latest before a
        trial that starts empty discards the load. A trial that reaches its time limit is the last
        and has no gate: the store may be in the middle of anything.
        """
        ungated: list[Finished] = []
        try:
            for in_turns, trials in groupby(self.spec.trials, key=lambda trial: trial.in_turns):
                if in_turns:
                    outs = self._measure_in_turns(list(trials))
                    if not self.loaded:
                        self._conclude(ungated)
                    ungated += outs
                    if self.gate is not None or not self.loaded:
                        self._send(ungated)
                elif not self._measure_one_by_one(trials, ungated):
                    return
            self._conclude(ungated)
        finally:
            self._close()

    def _measure_one_by_one(self, trials: Iterable[TrialSpec], ungated: list[Finished]) -> bool:
        """Measure trials alone. False if a trial reached its time limit."""
        for trial in trials:
            if trial.experiment.starts_from is State.EMPTY:
                self._conclude(ungated)
            self.parent.started(trial.key)
            out = self._trial(trial)
            if out.overdue:
                self._send([*(ungated if self.gate is not None else ()), out])
                return False
            if not self.loaded:  # it failed, or changed rows
                self._conclude(ungated)
            ungated.append(out)
            if self.gate is not None or not self.loaded:
                self._send(ungated)
        return True

    def _measure_in_turns(self, trials: Sequence[TrialSpec]) -> list[Finished]:
        """Measure trials on one load, in turns with those of other jobs."""
        if self.address is None:
            turns = TurnTaking(self.parent, time.process_time, None)
        else:
            servers = [pid for pid in self.processes.values() if pid != os.getpid()]
            turns = TurnTaking(self.parent, self._server_cpu_s, servers)
        outs = [_started_outcome(trial) for trial in trials]
        for trial, out in zip(trials, outs, strict=True):
            self.parent.started(trial.key)
            try:
                with self.time_limit.block():
                    self._prepare_store(trial)
                    assert self.store is not None
                    context = self._context(self.store, trial)
                    turns.add(out, trial.experiment.loads(context, trial.point))
            except TrialTimeUp:
                out.status, out.reason = "failed", OVERDUE
            except Exception as error:  # noqa: BLE001 - any failure of a store fails its trial
                out.status, out.reason = "failed", ending.log_error(error)
            if out.status == "failed" and not turns.is_open:
                self.loaded = False
        turns.run()
        for out in outs:
            self._complete(out)
            out.load = self.load
        if any(out.status == "failed" for out in outs):
            self.loaded = False
        return outs

    def _close(self) -> None:
        """Close the store. Drop only what was loaded into a server."""
        if self.store is None:
            return
        if self.spec.existing is None:
            close_store(self.store)
        else:
            self.store.close()
        self.store = None

    def _conclude(self, ungated: list[Finished]) -> None:
        """Run the gate on the load of these trials, and send them. They fail if the gate raises."""
        if not ungated:
            return
        try:
            self._run_gate_once()
        except Exception as error:  # noqa: BLE001 - whatever a store raises is its answer
            for out in ungated:
                out.status = "failed"
                out.reason = f"gate raised {ending.log_error(error)}"
            self.loaded = False
        self._send(ungated)

    def _send(self, trials: list[Finished]) -> None:
        """Send finished trials with the results of the gate. Waits until they are written, so that
        writing takes no CPU time from the next trial."""
        for out in trials:
            self._judge(out)
        self.parent.finished(trials)
        trials.clear()

    def _trial(self, trial: TrialSpec) -> Finished:
        out = _started_outcome(trial)
        sampler: Sampler | None = None
        try:
            with Sampler(self.processes, self.data_dirs, out.started_ns) as sampler:
                self._sampler = sampler
                with self.time_limit.block():
                    self._measure(trial, out, sampler)
        except TrialTimeUp:
            out.status, out.reason, out.overdue = "failed", OVERDUE, True
            self.loaded = False
        except Exception as error:  # noqa: BLE001 - any failure of a store fails its trial
            out.status, out.reason = "failed", ending.log_error(error)
            self.loaded = False
        self._sampler = None
        if sampler is not None:  # None: a process to sample had ended
            out.telemetry = sampler.rows()
            add_server_metrics(out.phases, out.telemetry, out.started_ns)
            machine = sampler.machine_rows()
            add_machine_metrics(out.phases, machine, out.telemetry, out.started_ns)
        self._complete(out)
        return out

    def _complete(self, out: Finished) -> None:
        out.store_version, out.notes = self.version, self.notes
        out.duration_s = (perf_counter_ns() - out.started_ns) / 1e9
        self.parent.ended(out.key)

    def _prepare_store(self, trial: TrialSpec) -> None:
        """Bring the store into the trial's starting state."""
        experiment = trial.experiment
        if self._cold and not experiment.warms_up:
            self._warm_up(trial)
        if experiment.starts_from is State.EMPTY:
            self._fresh_store()
        elif not self.loaded:
            self._set_up()
        if experiment.starts_from is State.LOADED and not experiment.before_gate:
            self._run_gate_once()

    def _measure(self, trial: TrialSpec, out: Finished, sampler: Sampler) -> None:
        experiment = trial.experiment
        self._prepare_store(trial)
        assert self.store is not None
        for phase in experiment.run(self._context(self.store, trial), trial.point):
            phase.unsampled = why_not_sampled(phase, perf_counter_ns())
            if phase.unsampled is None:
                sampler.mark(len(out.phases), phase.started_ns)
            out.phases.append(phase)
            phase.judge_pending()
            withhold_quantiles(phase)
        if experiment.starts_from is State.EMPTY:
            self.loaded, self.load = True, bulk.load_times_of(out.phases)
        out.load = self.load
        if experiment.mutates:
            self.loaded = False

    def _warm_up(self, trial: TrialSpec) -> None:
        """Search the server once before anything counts: in a collection of its own, or in the
        existing one."""
        if self.store is None:
            self._fresh_store()  # what its process holds without rows is measured before
        assert self.store is not None
        context = self._context(self.store, trial)
        if self.spec.existing is not None:
            warm_up(context, self.store, self.spec.warm_up_s)
        else:
            with self._second_store("warm-up") as store:
                load_first_rows(context, store)
                warm_up(context, store, self.spec.warm_up_s)
        self._cold = False

    def _fresh_store(self) -> None:
        self._close()
        shutil.rmtree(self.data_dir, ignore_errors=True)
        self._loads += 1
        self._location.mkdir(parents=True)
        self.loaded, self.load, self.gate = False, None, None
        self._check_disk_space()
        self.store = self._attach_store() if self.spec.existing else self.make(self._location)
        self.empty_disk = store_bytes_by_kind(self.kind, self.data_dirs)
        self.version = self.store.version()
        note = untested_note(self.kind, self.version)
        self.notes = () if note is None else (note,)
        if self.baseline_rss_bytes is None:  # later, an earlier load may still use memory
            self.baseline_rss_bytes = self._resident_without_rows()

    def _check_disk_space(self) -> None:
        """Raise OSError if the disk has no room for the vectors alone."""
        if self.spec.existing or not self.kind.capabilities.persistent:
            return
        needed = self.dataset.rows * self.dataset.dim * 4
        for folder in self.data_dirs:
            free = shutil.disk_usage(folder).free
            if free < needed:
                sizes = f"{formatting.size(needed)}, and {formatting.size(free)} are free"
                why = f"the vectors alone take {sizes}"
                raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {why}", str(folder))

    def _attach_store(self) -> Store:
        """The store, opened on the collection that somebody else made."""
        assert self.address is not None
        assert self.spec.existing is not None
        return open_existing(
            self.kind,
            self._location,
            self.address,
            self.spec.existing,
            self.schema,
            self.spec.index,
            self.keys,
        )

    def _resident_without_rows(self) -> int | None:
        """Resident bytes before rows are loaded. First cut batches and load Arrow's functions,
        because Arrow's own set-up is not the store's memory."""
        import pyarrow.compute  # noqa: F401 - filters are applied with it

        for _ in bulk.batches(
            self.dataset,
            self.schema,
            self.spec.batch_rows,
            stop=min(2 * self.spec.batch_rows, self.dataset.rows),
        ):
            pass
        forget_pages(self.dataset.vectors)
        give_back_free_memory()
        return self._resident_bytes()

    def _resident_bytes(self) -> int | None:
        """Resident bytes of the processes that hold the store's data, and of their children."""
        usages = [ProcessTree(pid).usage() for pid in self.resident_in]
        known = [usage.rss_bytes for usage in usages if usage is not None]
        return sum(known) if known else None

    def _set_up(self) -> None:
        """Load the rows unless a trial of this job that starts empty has done so. The loading time
        goes with every trial of the load."""
        self._fresh_store()
        assert self.store is not None
        if self.spec.existing is not None:
            self.loaded = True
            return
        self.store.create(self.schema, self.spec.index)
        task = (self.dataset, self.schema, self.spec.batch_rows, self.parent.progress)
        if writes_natively(self.kind):
            loaded = inserts.load(self.store.native_rows(), *task, self.spec.certificate)
            if loaded.metrics["count"] != self.dataset.rows:
                raise StoreError(f"it could not be loaded: {loaded.reason}")
        else:
            loaded = bulk.load(self.store, *task)
        steps = bulk.finish(self.store, self.parent.progress)
        self.loaded, self.load = True, bulk.load_times(loaded, steps)

    def _written_bytes(self) -> int | None:
        """Bytes written by the processes that hold the store's data; see `Context`."""
        used = [tree.usage() for tree in self._data_trees]
        known = [one.write_bytes for one in used if one is not None]
        return sum(one or 0 for one in known) if known else None

    def _run_gate_once(self) -> None:
        """Run the gate once per load; its results go with every trial of the load."""
        if self.gate is None:
            self.parent.progress(0, 1, "gate")
            assert self.store is not None
            self.gate = run_gate(self._subject(self.store), self.spec.data_dir / "scratch")

    def _judge(self, out: Finished) -> None:
        """Set the trial's status; see `ending.judge`."""
        experiment = self._experiment[out.key]
        ending.drop_undeclared(out, experiment.metrics)
        taken = frozenset[str]()
        if self.spec.certificate.placement.data_disk is not None:
            taken |= ending.DISK
        if self.spec.server is not None or self.spec.limited:
            taken |= ending.MEMORY
        ending.judge(out, self.gate or [], experiment.depends_on(), taken)

    def _subject(self, store: Store) -> Subject:
        exact = self._truth(self.spec.k, None)
        nodes = 0 if self.address is None else len(self.address.nodes)
        return Subject(
            store=store,
            make=self.make,
            schema=self.schema,
            index=self.spec.index,
            rows=ExpectedRows(self.dataset.ids, self.dataset.vectors, self.dataset.metadata),
            queries=self.dataset.queries,
            judge=Judge(exact.k, exact.accept_offsets, exact.accept_ids, exact.available),
            k=self.spec.k,
            seed=self.spec.seed,
            at_node=() if self.spec.existing else tuple(map(self._opener_at_node, range(nodes))),
            read_only=self.spec.existing is not None,
        )

    def _opener_at_node(self, number: int) -> Callable[[], Store]:
        """A function that opens the loaded store at a node of the cluster."""

        def opened() -> Store:
            assert self.address is not None
            store = self.kind(self._location, self.address.rotated(number))
            store.durability = self.spec.durability
            store.open(self.schema, self.spec.index)
            return store

        return opened

    def _context(self, store: Store, trial: TrialSpec) -> Context:
        placement, ask = self.spec.certificate.placement, self.parent.ask
        disk = placement.data_disk is not None
        return Context(
            store=store,
            lane=Lane(trial.lane),
            certificate=self.spec.certificate,
            dataset=self.dataset,
            schema=self.schema,
            index=self.spec.index,
            k=self.spec.k,
            seed=self.spec.seed,
            data_dirs=self.data_dirs,
            batch_rows=self.spec.batch_rows,
            progress=self.parent.progress,
            show=self.parent.show,
            truth=self._truth,
            repeat_queries=self.spec.repeat_queries,
            resident_bytes=self._resident_bytes,
            baseline_rss_bytes=self.baseline_rss_bytes,
            written_bytes=self._written_bytes,
            limit_memory=(
                (lambda size: ask(LimitMemory(size)))
                if self.spec.server is not None or self.spec.limited
                else None
            ),
            second_store=self._second_store,
            existing=self.spec.existing,
            address=self.address,
            empty_disk=self.empty_disk,
            crash=None if self.spec.server is None else self._crash,
            cut_power=(lambda: ask(CutPower())) if disk and not self.spec.server else None,
            fill_disk=(lambda full: ask(FillDisk(full))) if disk else None,
            from_machines=self.parent.drive if placement.client_machines else None,
            objects=partial(self._objects, trial.key),
            strike=None if self.address is None else self._strike,
        )

    def _second_store(self, name: str) -> AbstractContextManager[Store]:
        """See `Context.second_store`."""
        if self.spec.existing is not None:
            raise Unsupported("no collection is made beside one that was there already")
        return temporary_store(self.make, self.spec.data_dir / "beside" / name)

    def _truth(self, k: int, where: Filters) -> Truth:
        return truth.truth_of(self.dataset, k, where)


def _started_outcome(trial: TrialSpec) -> Finished:
    return Finished(trial.key, "ok", None, None, datetime.now(UTC), perf_counter_ns(), 0.0)


def main() -> None:
    """Measure the job from the pipe. Arguments: file descriptor of the pipe, id of the parent."""
    die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    load_without_pandas()
    with Connection(int(sys.argv[1])) as pipe:
        data: JobData = pipe.recv()
        dataset = data.load()
        data.hide()
        spec: JobSpec = pipe.recv()
        pins = spec.certificate.placement.pins
        if spec.server is not None and pins:  # the server has the other cores
            os.sched_setaffinity(0, pins)
        measurement = _Measurement(spec, pipe, dataset)
        truth.use_files(measurement.parent)
        signal.signal(TIME_IS_UP, measurement.time_limit.handle_signal)
        measurement.run()
