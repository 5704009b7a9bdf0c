"""Sixty ways in which this machine fails under a trial, and none of them a verdict on the store."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import pytest
from in_process import measure_here

from vectrial.datasets import catalog, library
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.model.capabilities import Index, NoParams, Params
from vectrial.model.filters import Filter
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.placement import Certificate, ClientLimits, Placement
from vectrial.model.schema import Schema
from vectrial.model.store import Hits, Searcher
from vectrial.stores.memory import MemoryStore
from vectrial.worker import worker
from vectrial.worker.messages import Ack, Finished, JobSpec, TrialSpec

DATASET = "clustered-16-2k"


def number(of: int) -> Callable[[], Exception]:
    return lambda: OSError(of, os.strerror(of))


#: What the machine runs out of, and what is raised then.
ERRORS: dict[str, Callable[[], BaseException]] = {
    "room": number(errno.ENOSPC),
    "quota": number(errno.EDQUOT),
    "room, says SQLite": lambda: sqlite3.OperationalError("database or disk is full"),
    "room, says DuckDB": lambda: duckdb.IOException(
        'IO Error: Could not write file "x": No space left on device'
    ),
    "handles": number(errno.EMFILE),
    "handles of all": number(errno.ENFILE),
    "memory": number(errno.ENOMEM),
    "memory, says Python": MemoryError,
    "threads": lambda: RuntimeError("can't start new thread"),
    "processes": lambda: BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)),
    "a disk": number(errno.EIO),
    "ports": number(errno.EADDRNOTAVAIL),
}
PLACES = ("create", "insert", "count", "beside", "clock")


class Frail(MemoryStore):
    """A right store on a machine that fails it at one place."""

    place: ClassVar[str] = ""
    error: ClassVar[Callable[[], BaseException]] = MemoryError
    created: ClassVar[int] = 0
    timed: ClassVar[bool] = False

    def _at(self, place: str) -> None:
        if Frail.place == place:
            raise Frail.error()

    def create(self, schema: Schema, index: Index) -> None:
        Frail.created += 1
        self._at("create" if Frail.created == 1 else "beside")
        super().create(schema, index)

    def insert(self, batch: Any) -> None:
        self._at("insert")
        super().insert(batch)

    def count(self) -> int:
        self._at("count")
        return super().count()

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        search = super().searcher(k, params, where)

        def run(vector: Any, /) -> Hits:
            if Frail.timed:
                self._at("clock")
            return search(vector)

        return run


class _Ear:
    """The parent's end of the pipe."""

    def __init__(self) -> None:
        self.trials: list[Finished] = []

    def send(self, message: object) -> None:
        if isinstance(message, Finished):
            self.trials.append(message)

    def recv(self) -> Ack:
        return Ack()


def outcome(folder: Path) -> Finished:
    """Of a search of 500 rows."""
    spec = JobSpec(
        store=f"{__name__}:Frail",
        index=Index("flat", NoParams()),
        dataset=DATASET,
        k=10,
        seed=1,
        batch_rows=100,
        data_dir=folder,
        certificate=Certificate(ClientLimits(), Placement(), {}),
        trials=(
            TrialSpec(
                "0",
                EXPERIMENTS["search"](min_s=0.02, max_s=0.05),
                OperatingPoint({"clients": 1}, NoParams()),
                "embedded",
            ),
        ),
    )
    ear: Any = _Ear()
    measure_here(spec, ear, library.subset(library.load(DATASET), 500, 20))
    (trial,) = ear.trials
    assert isinstance(trial, Finished)
    return trial


@pytest.fixture
def frail(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path_factory.getbasetemp() / "home"))
    catalog.ensure(DATASET, lambda *_: None)
    monkeypatch.setattr(Frail, "created", 0)
    monkeypatch.setattr(Frail, "timed", False)
    gate = worker.run_gate

    def then_timed(*given: Any) -> Any:
        results = gate(*given)
        Frail.timed = True
        return results

    monkeypatch.setattr(worker, "run_gate", then_timed)


@pytest.mark.usefixtures("frail")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("lacks", ERRORS)
def test_what_the_machine_lacks_is_no_fault_of_the_store(
    lacks: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Frail, "place", place)
    monkeypatch.setattr(Frail, "error", staticmethod(ERRORS[lacks]))
    trial = outcome(tmp_path)
    assert trial.status == "failed"
    assert trial.reason is not None
    assert trial.reason.startswith("this machine lacked "), trial.reason
    assert "no fault of the store" in trial.reason
    assert not [check for check in trial.gate if check.passed is False]


@pytest.mark.usefixtures("frail")
def test_a_right_store_on_a_right_machine_is_measured(tmp_path: Path) -> None:
    assert outcome(tmp_path).status == "ok"


@pytest.mark.usefixtures("frail")
def test_a_disk_without_room_for_the_vectors_is_said_before_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    monkeypatch.setattr(Frail, "capabilities", replace(Frail.capabilities, persistent=True))
    usage = worker.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(worker.shutil, "disk_usage", lambda _: usage._replace(free=10_000))
    trial = outcome(tmp_path)
    assert trial.reason is not None
    assert "this machine lacked room on a disk" in trial.reason
    assert "the vectors alone take 32.0 kB, and 10.0 kB are free" in trial.reason
    assert Frail.created == 0
