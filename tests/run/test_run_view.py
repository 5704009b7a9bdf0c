"""What one sees of a phase that takes long."""

from __future__ import annotations

import io
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from rich.console import Console

from vectrial.cli import run_view
from vectrial.model.phase import Live

LIVE = Live(
    name="search", offered=1000.0, achieved=998, p50_us=310.4, p99_us=1204.0, recall=0.9812,
    errors=3, client_share=0.12, remaining_s=41.7, server_cores=1.04,
)  # fmt: skip
LINE = (
    "offered 1,000/s, achieved 998/s, p50 310 µs, p99 1,204 µs, recall 0.981, errors 3,"
    " client 12%, server 1.0 cores, 42 s of this load left"
)


@dataclass
class NoTrials:
    estimate_s: float = 0.0
    trials = ()
    refusals = ()
    jobs = ()


def test_one_line_says_what_a_phase_is_doing() -> None:
    assert run_view.phase_line(LIVE) == LINE


def test_a_second_without_answers_shows_no_figures_of_answers() -> None:
    silent = Live("search", None, 0, None, None, None, 0, 0.0, None)
    assert run_view.phase_line(silent) == "0 QPS, errors 0, client 0%"


def test_a_log_file_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(run_view.time, "monotonic", lambda: now[0])
    out = io.StringIO()
    view = run_view.PlainView(NoTrials(), Console(file=out))  # type: ignore[arg-type]
    for second in range(25):
        now[0] = second
        view.live(LIVE)
    assert out.getvalue().splitlines() == [f"    {LINE}"] * 2


def test_a_terminal_shows_it_beneath_the_bar() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=140)
    with run_view.LiveView(NoTrials(), console) as view:  # type: ignore[arg-type]
        view.live(LIVE)
        view._live.refresh()
    assert LINE in out.getvalue()


def test_the_bar_is_full_when_a_run_that_was_resumed_ends() -> None:
    from vectrial.results.writer import TrialRecord

    console = Console(file=io.StringIO(), force_terminal=True, width=140)
    plan = SimpleNamespace(trials=(1, 2, 3), refusals=(4,), estimate_s=0.0, jobs=())
    view = run_view.make_view(plan, console, 2)  # type: ignore[arg-type]
    assert isinstance(view, run_view.LiveView)
    (task,) = view._whole.tasks
    assert (task.completed, task.total) == (2, 4)
    what = SimpleNamespace(store="faiss", lane="embedded", experiment="crud", params={})
    for status in ("skipped", "ok"):
        view.finished(TrialRecord(what, status, None))  # type: ignore[arg-type]
    assert task.completed == 4


def test_the_bar_counts_down(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(run_view.time, "monotonic", lambda: now[0])
    view = run_view.LiveView(
        NoTrials(8.0),  # type: ignore[arg-type]
        Console(file=io.StringIO(), force_terminal=True, width=140),
    )
    (task,) = view._whole.tasks
    job, column = SimpleNamespace(label="faiss", estimate_s=2.0), run_view._RemainingTime()
    view.job(job, 1, 4)  # type: ignore[arg-type]
    assert column.render(task).plain == "8 s left"
    now[0] = 2.0
    view.job(job, 2, 4)  # type: ignore[arg-type]
    now[0] = 4.0
    assert column.render(task).plain == "4 s left"
    now[0] = 60.0
    assert column.render(task).plain == "0 s left"


def test_what_is_skipped_for_one_reason_is_said_once() -> None:
    from vectrial.results.writer import TrialRecord

    out = io.StringIO()
    view = run_view.PlainView(NoTrials(), Console(file=out))  # type: ignore[arg-type]
    row = SimpleNamespace(store="qdrant", lane="native", experiment="crud", params={})
    other = SimpleNamespace(store="redis", lane="native", experiment="crud", params={})
    for what in (row, row, row, other, other):
        view.finished(TrialRecord(what, "skipped", "there is no program"))  # type: ignore[arg-type]
    assert out.getvalue().splitlines() == [
        "  qdrant native crud: skipped: there is no program",
        "  qdrant: so are its other trials, for the same reason",
        "  redis native crud: skipped: there is no program",
        "  redis: so are its other trials, for the same reason",
    ]


def test_a_capacity_is_told_by_its_answer_and_not_by_what_led_there() -> None:
    from vectrial.model.phase import Phase
    from vectrial.results.writer import TrialRecord

    alone = Phase("recall", 0, 1, metrics={"recall_mean": 0.99, "qps": 1234.0})
    answer = Phase("capacity", 1, 2, metrics={"sustained_qps": 500.0, "recall_mean": 0.96})
    lacking = {"sustained_qps": None, "recall_mean": 0.91999}
    why = "recall 0.95 is not reached"
    none = Phase("capacity", 1, 2, metrics=lacking, valid=False, reason=why)
    what = SimpleNamespace(store="faiss", lane="embedded", params={}, experiment="capacity")
    found = TrialRecord(what, "ok", phases=[alone, answer])  # type: ignore[arg-type]
    assert run_view.describe(found) == "faiss capacity: sustains 500 QPS, recall 0.9600"
    # A trial is invalid only where all of its phases are.
    lost = TrialRecord(what, "ok", phases=[alone, none])  # type: ignore[arg-type]
    assert run_view.describe(lost) == f"faiss capacity: recall 0.9199  INVALID: {why}"
    gate = TrialRecord(what, "invalid", "gate failed", phases=[alone, answer])  # type: ignore[arg-type]
    assert run_view.describe(gate).endswith("INVALID: gate failed")


def test_the_time_that_is_left_is_said_and_is_no_more_than_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(run_view.time, "monotonic", lambda: now[0])
    out = io.StringIO()
    jobs = [
        SimpleNamespace(label="faiss", estimate_s=seconds)
        for seconds in (100.0, 200.0, 300.0, 400.0)
    ]
    views = [
        run_view.PlainView(NoTrials(1000.0), Console(file=out), 0, within)  # type: ignore[arg-type]
        for within in (None, SimpleNamespace(remaining_s=25.0))
    ]
    for number, second in ((1, 5.0), (2, 1005.0), (3, 3005.0)):
        now[0] = second
        for view in views:
            view.job(jobs[number - 1], number, 4)  # type: ignore[arg-type]
    alone, limited = out.getvalue().splitlines()[::2], out.getvalue().splitlines()[1::2]
    assert alone == [
        "[1/4] faiss (about 17 min left)",
        "[2/4] faiss (about 99 min left)",  # one of ten parts took 1,000 s
        "[3/4] faiss (about 99 min left)",  # three of ten took 3,000 s
    ]
    assert {line.partition("(")[2] for line in limited} == {"about 25 s left)"}
