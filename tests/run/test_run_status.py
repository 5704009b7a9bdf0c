"""What a run under way keeps in its folder for whoever looks from elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vectrial.cli import run_status
from vectrial.cli.run_status import StatusFileView
from vectrial.model.phase import Live
from vectrial.results.progress import STATUS, Status, read_status
from vectrial.results.writer import TrialRecord
from vectrial.worker.messages import Progress


class Seen:
    """A view that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.told.append(name)

    def __enter__(self) -> Seen:
        self.told.append("enter")
        return self

    def __exit__(self, *exc: object) -> None:
        self.told.append("exit")


def record(status: str) -> TrialRecord:
    row = SimpleNamespace(store="faiss", lane="embedded", experiment="crud", params={})
    return TrialRecord(row, status, None)  # type: ignore[arg-type]


def status_of(folder: Path) -> Status:
    found = read_status(folder)
    assert found is not None
    return found


def test_everything_is_told_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(run_status.time, "monotonic", lambda: now[0])
    seen = Seen()
    plan = SimpleNamespace(trials=(1, 2, 3), refusals=(4,))
    with StatusFileView(plan, seen, tmp_path) as view:  # type: ignore[arg-type]
        assert status_of(tmp_path).pid == os.getpid()
        assert status_of(tmp_path).trials == 4
        steps = [
            lambda: view.fetching(1, 4, "a dataset"),
            lambda: view.job(SimpleNamespace(label="faiss hnsw"), 1, 2),  # type: ignore[arg-type]
            lambda: view.started(SimpleNamespace(row=record("ok").row)),  # type: ignore[arg-type]
            lambda: view.progress(Progress(0.5, 2.0, "searching")),
            lambda: view.live(Live("search", None, 990, None, None, None, 0, 0.1, 3.0)),
        ]
        for step in steps:
            now[0] += run_status.EVERY_S
            step()
        found = status_of(tmp_path)
        assert (found.job, found.number, found.jobs) == ("faiss hnsw", 1, 2)
        assert (found.what, found.part_done, found.part_of) == ("searching", 0.5, 2.0)
        assert found.live.startswith("990 QPS")
        for status in ("ok", "ok", "failed"):
            now[0] += run_status.EVERY_S
            view.finished(record(status))
        found = status_of(tmp_path)
        assert (found.done, found.counts) == (3, {"ok": 2, "failed": 1})
        assert len(found.recent) == 3
        assert not found.live
        assert not found.ended
    assert status_of(tmp_path).ended
    assert seen.told == [
        "enter", "fetching", "job", "started", "progress", "live", *["finished"] * 3, "exit",
    ]  # fmt: skip


def test_a_measurement_is_not_disturbed_by_many_writings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, written = [0.0], []
    monkeypatch.setattr(run_status.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(run_status, "write_status", lambda folder, status: written.append(status))
    plan = SimpleNamespace(trials=(), refusals=())
    with StatusFileView(plan, Seen(), tmp_path) as view:  # type: ignore[arg-type]
        for tick in range(100):
            now[0] = 10 + tick / 20
            view.progress(Progress(tick, 100, "searching"))
    assert len(written) <= 2 + 6
    assert written[-1].part_done == 99, "the end is told whatever the time"


def test_what_is_said_between_trials_is_seen_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may stand for minutes, while a server starts."""
    monkeypatch.setattr(run_status.time, "monotonic", lambda: 7.0)
    plan = SimpleNamespace(trials=(1, 2), refusals=())
    with StatusFileView(plan, Seen(), tmp_path) as view:  # type: ignore[arg-type]
        view.live(Live("search", None, 990, None, None, None, 0, 0.1, 3.0))
        assert not status_of(tmp_path).live, "the clock stands still"
        view.finished(record("ok"))
        assert status_of(tmp_path).done == 1
        view.live(Live("search", None, 990, None, None, None, 0, 0.1, 3.0))
        view.job(SimpleNamespace(label="milvus hnsw"), 2, 2)  # type: ignore[arg-type]
        found = status_of(tmp_path)
        assert (found.job, found.live) == ("milvus hnsw", "")
        view.note("the client's ceiling is looked for")
        assert status_of(tmp_path).recent[-1] == "the client's ceiling is looked for"


def test_a_run_that_is_resumed_begins_where_it_stood(tmp_path: Path) -> None:
    plan = SimpleNamespace(trials=(1, 2, 3), refusals=(4,))
    with StatusFileView(plan, Seen(), tmp_path, before=2) as view:  # type: ignore[arg-type]
        assert status_of(tmp_path).done == 2
        for status in ("skipped", "ok"):
            view.finished(record(status))
        found = status_of(tmp_path)
        assert (found.done, found.trials) == (4, 4)
        assert found.counts == {"skipped": 1, "ok": 1}


def test_a_full_disk_is_noted_once_and_does_not_hide_what_else_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen()
    plan = SimpleNamespace(trials=(), refusals=())

    def full(*given: object) -> None:
        raise OSError("no space left on device")

    def measure() -> None:
        with StatusFileView(plan, seen, tmp_path) as view:  # type: ignore[arg-type]
            monkeypatch.setattr(run_status, "write_status", full)
            view.finished(record("ok"))
            view.finished(record("ok"))
            raise ValueError("other")

    with pytest.raises(ValueError, match="other"):
        measure()
    assert seen.told == ["enter", "finished", "note", "finished", "exit"]


def test_it_ends_with_an_interrupt_too(tmp_path: Path) -> None:
    plan = SimpleNamespace(trials=(), refusals=())
    with pytest.raises(KeyboardInterrupt), StatusFileView(plan, Seen(), tmp_path):  # type: ignore[arg-type]
        raise KeyboardInterrupt
    assert status_of(tmp_path).ended
    (tmp_path / STATUS).write_text("{half")
    assert read_status(tmp_path) is None
