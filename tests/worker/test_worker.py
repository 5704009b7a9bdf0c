"""What the measuring process makes of a job: what it tells of each trial, what it leaves behind."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
import pytest
from in_process import measure_here
from numpy.typing import NDArray

from vectrial.datasets import catalog, library
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.gate import GateResult
from vectrial.model.capabilities import Index, NoParams, Params
from vectrial.model.errors import StoreError
from vectrial.model.filters import Filter
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Phase
from vectrial.model.placement import Certificate, ClientLimits, Placement
from vectrial.model.schema import Schema
from vectrial.model.store import Address, Searcher
from vectrial.model.trial import OVERDUE
from vectrial.run import process as running
from vectrial.run.process import MeasuringProcess
from vectrial.stores.memory import MemoryStore
from vectrial.worker import worker
from vectrial.worker.ending import BlockTimer, TrialTimeUp
from vectrial.worker.messages import (
    Ack,
    Finished,
    JobSpec,
    Progress,
    Serving,
    TrialSpec,
    TrialStarted,
)

DATASET = "clustered-16-2k"


class Noted(MemoryStore):
    """A store that acts as one with a server, and notes what is asked of the one measured."""

    kind: ClassVar[str] = "server"
    calls: ClassVar[list[str]] = []
    locations: ClassVar[list[Path]] = []
    fails_at: ClassVar[int | None] = None

    def __init__(self, location: Path, address: Address | None = None) -> None:
        super().__init__(location)
        self._mine = location.parent.name == "data"

    def _note(self, call: str) -> None:
        if self._mine:
            self.calls.append(call)
            self.locations.append(self.location)

    def create(self, schema: Schema, index: Index) -> None:
        self._note("create")
        if self._mine and self.calls.count("create") == self.fails_at:
            raise StoreError("no more")
        super().create(schema, index)

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        if self.location.name == "warm-up":
            self.calls.append(f"warmed by {self.count()} rows")
        return super().searcher(k, params, where)

    def drop(self) -> None:
        self._note("drop")
        super().drop()

    def close(self) -> None:
        self._note("close")
        super().close()


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Noted]]:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(Noted, "calls", [])
    monkeypatch.setattr(Noted, "locations", [])
    catalog.ensure(DATASET, lambda *_: None)
    return Noted


class Ear:
    """The parent's end of the pipe: hears, and notes when it is waited for."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def send(self, message: object) -> None:
        self.heard.append(message)

    def recv(self) -> Ack:
        self.heard.append(Ack())
        return Ack()


def measured(
    folder: Path, *trials: tuple[str, dict[str, Any]], warm_up_s: float = 0.0
) -> list[Finished]:
    """What is left when these experiments are measured with these settings in this process."""
    messages = told(folder, *trials, warm_up_s=warm_up_s)
    return [one for one in messages if isinstance(one, Finished)]


def told(folder: Path, *trials: tuple[str, dict[str, Any]], warm_up_s: float = 0.0) -> list[Any]:
    """Every message of it, and a `Ack` where an answer is waited for."""
    points = {"ingest": {"rows": 500, "concurrency": 1}}
    spec = JobSpec(
        store=f"{__name__}:Noted",
        index=Index("flat", NoParams()),
        dataset=DATASET,
        k=10,
        seed=1,
        batch_rows=100,
        data_dir=folder,
        certificate=Certificate(ClientLimits(), Placement(), {}),
        trials=tuple(
            TrialSpec(
                str(at),
                EXPERIMENTS[name](**settings),
                OperatingPoint(points.get(name, {}), NoParams()),
                "sdk",
            )
            for at, (name, settings) in enumerate(trials)
        ),
        server=Serving(Address("127.0.0.1", {}), {}, ()),
        warm_up_s=warm_up_s,
    )
    ear: Any = Ear()
    measure_here(spec, ear, library.subset(library.load(DATASET), 500, 20))
    return ear.heard


def test_a_server_is_searched_once_before_anything_counts(
    noted: type[Noted], tmp_path: Path
) -> None:
    first, second = measured(tmp_path, ("ingest", {}), ("ingest", {}), warm_up_s=0.01)
    assert (first.status, second.status) == ("ok", "ok"), (first.reason, second.reason)
    warmed = [call for call in noted.calls if call.startswith("warmed")]
    assert warmed == ["warmed by 500 rows"]
    assert noted.calls.index(warmed[0]) < noted.calls.index("create")


def test_every_load_is_asked_about_before_it_is_gone(noted: type[Noted], tmp_path: Path) -> None:
    first, second = measured(tmp_path, ("ingest", {}), ("ingest", {}))
    assert (first.status, second.status) == ("ok", "ok"), (first.reason, second.reason)
    assert first.gate
    assert second.gate
    assert noted.calls == ["create", "drop", "close", "create", "drop", "close"]


def test_no_load_is_in_a_collection_of_an_earlier_one(noted: type[Noted], tmp_path: Path) -> None:
    """A write that a lost node kept, for one, lands when the next load is there."""
    measured(tmp_path, ("ingest", {}), ("ingest", {}))
    first, second = noted.locations[:3], noted.locations[3:]
    assert len(set(first)) == len(set(second)) == 1
    assert first != second


def test_a_trial_that_fails_takes_no_other_with_it(
    noted: type[Noted],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(noted, "fails_at", 2)
    first, second = measured(tmp_path, ("ingest", {}), ("ingest", {}))
    assert first.status == "ok"
    assert first.gate
    assert (second.status, second.reason) == ("failed", "StoreError: no more")
    assert second.telemetry, "what was sampled is kept"
    log = capfd.readouterr().err
    assert log.count("Traceback") == 1
    assert "test_worker.py" in log, "the line that raised"


def test_a_metric_that_nobody_declared_fails_its_trial_and_nothing_else(
    noted: type[Noted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = EXPERIMENTS["ingest"].run

    def inventive(*arguments: Any) -> Iterator[Phase]:
        for phase in run(*arguments):
            phase.metrics["nonsense"] = 1.0
            yield phase

    monkeypatch.setattr(EXPERIMENTS["ingest"], "run", inventive)
    (only,) = measured(tmp_path, ("ingest", {}))
    assert only.status == "failed"
    assert only.reason is not None
    assert "undeclared metric nonsense: declare it in" in only.reason
    assert only.phases
    assert not any("nonsense" in phase.metrics for phase in only.phases), "the others are kept"


def test_a_gate_that_cannot_be_asked_fails_the_trials_it_was_to_judge(
    noted: type[Noted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(*_: object) -> NoReturn:
        raise StoreError("gone")

    monkeypatch.setattr(worker, "run_gate", raising)
    (trial,) = measured(tmp_path, ("ingest", {}))
    assert (trial.status, trial.reason) == ("failed", "gate raised StoreError: gone")
    assert trial.phases


def test_a_check_that_raises_fails_the_trials_that_rest_on_it(
    noted: type[Noted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before this the store was wrong, and stayed so when the run was resumed."""
    broken = "raised KeyError: 'vector'"

    def asked(*_: object) -> list[GateResult]:
        return [
            GateResult("row_count", True, ""),
            GateResult("all_rows_kept", None, broken, raised=True),
        ]

    monkeypatch.setattr(worker, "run_gate", asked)
    (trial,) = measured(tmp_path, ("ingest", {}))
    assert (trial.status, trial.reason) == ("failed", f"gate: all_rows_kept: {broken}")


def test_no_trial_begins_before_those_that_ended_are_kept(
    noted: type[Noted], tmp_path: Path
) -> None:
    """What is written meanwhile would take processor time from what is measured."""
    heard = told(tmp_path, ("ingest", {}), ("ingest", {}))
    steps = [type(one) for one in heard if isinstance(one, TrialStarted | Finished | Ack)]
    assert steps == [TrialStarted, Finished, Ack] * 2


def test_what_ended_is_kept_once_the_next_message_is_asked_for() -> None:
    process = MeasuringProcess.__new__(MeasuringProcess)
    process._pipe, theirs = Pipe()
    theirs.send(Finished("a", "ok", None, None, datetime.now(UTC), 0, 0.0))
    messages = process.messages(60.0)
    assert isinstance(next(messages), Finished)
    assert not theirs.poll(), "it is being written"
    theirs.send(TrialStarted("b"))
    assert next(messages) == TrialStarted("b")
    assert theirs.recv() == Ack()


def test_nothing_stays_on_a_server_after_rows_were_changed(
    noted: type[Noted], tmp_path: Path
) -> None:
    (trial,) = measured(tmp_path, ("crud", {"samples": 5}))
    assert trial.status == "ok", trial.reason
    assert noted.calls == ["create", "drop", "close"]


@pytest.mark.slow
def test_a_trial_that_tells_how_far_it_is_takes_too_long_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(running, "_UNWINDING_S", 1.0)
    process, ended = MeasuringProcess.__new__(MeasuringProcess), threading.Event()
    process._pipe, theirs = Pipe()
    process._overdue = None
    process._child = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True
    )

    def tell() -> None:
        while not ended.wait(0.05):
            theirs.send(Progress(1, 2, "loading"))

    theirs.send(Progress(1, 2, "loading"))  # the thread may begin late
    thread = threading.Thread(target=tell)
    thread.start()
    heard = 0
    try:
        for _ in process.messages(2.0):
            heard += 1
            assert heard < 2000, "it goes on and on"
        assert heard
        assert process._child.wait(10) < 0
    finally:
        ended.set()
        thread.join()
        process._child.kill()
        process._child.wait()
    assert process.end_reason() == "took longer than trial_timeout_s = 2"


def test_nothing_but_a_block_is_ended_at_its_time_limit() -> None:
    sends = False
    limit = BlockTimer(lambda: sends)
    limit.handle_signal()
    with limit.block():
        sends = True
        limit.handle_signal()  # the parent repeats it
        sends = False
        with pytest.raises(TrialTimeUp):
            limit.handle_signal()
        limit.handle_signal()  # it is on its way out
    limit.handle_signal()


def test_a_trial_at_its_time_limit_is_the_last_and_keeps_what_it_has(
    noted: type[Noted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = MemoryStore.delete

    def interrupted(self: Noted, ids: NDArray[np.int64]) -> None:
        if self._mine:  # and not a collection of the gate
            raise TrialTimeUp
        delete(self, ids)

    monkeypatch.setattr(noted, "delete", interrupted)
    first, second = measured(tmp_path, ("storage", {}), ("crud", {"samples": 5}), ("storage", {}))
    assert (first.status, first.overdue) == ("ok", False)
    assert (second.status, second.reason, second.overdue) == ("failed", OVERDUE, True)
    assert [phase.name for phase in second.phases][-1] == "update"
    assert second.telemetry


def test_trials_have_the_times_of_the_load_that_they_are_of(
    noted: type[Noted], tmp_path: Path
) -> None:
    other = ("storage", {})
    names = ["load_s", "flush_s", "build_s", "wait_s", "ready_s"]
    first, second, ingest, third = measured(tmp_path, other, other, ("ingest", {}), other)
    assert {one.status for one in (first, second, ingest, third)} == {"ok"}, first.reason
    assert first.load is not None
    assert list(first.load) == names
    assert first.load["ready_s"] == pytest.approx(sum(first.load[name] for name in names[:-1]))
    assert first.load["load_s"] > 0
    assert second.load == first.load
    total = next(phase for phase in ingest.phases if phase.name == "ingest")
    assert ingest.load == third.load == {name: total.metrics[name] for name in names}
    assert third.load != first.load
