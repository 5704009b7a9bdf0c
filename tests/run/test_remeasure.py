"""What met other work on the machine is measured again at the end of a run, within its time."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from in_process import FIGURES, Recorded
from small_suite import TINY, Inside

from vectrial.model.phase import Phase, Role
from vectrial.plan.model import Job
from vectrial.results.reader import RunReader
from vectrial.results.writer import TrialRecord
from vectrial.run import runner

REPEATS = 24
#: By repeat, how often it was measured.
measured: Counter[int] = Counter()


class Busy(Recorded):
    """Repeats 3, 4 and 5 meet other work when they are first measured; repeat 5 then fails."""

    def measure(self, job: Job) -> None:
        for trial in job.trials:
            measured[trial.row.repeat] += 1
            first = measured[trial.row.repeat] == 1
            if trial.row.repeat == 5 and not first:
                self.write(TrialRecord(trial.row, "failed", "it fell over"))
                continue
            busy = first and trial.row.repeat in (3, 4, 5)
            figures = {**FIGURES, "other_cores": 1.5 if busy else 0.0}
            phase = Phase("search", 0, 10**9, {"k": self.rules.k}, figures, role=Role.SEARCH)
            self.write(TrialRecord(trial.row, "ok", phases=[phase], metrics=[]))


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runner, "JobRunner", Busy)
    measured.clear()
    path = tmp_path / "tiny.toml"
    path.write_text(TINY.replace("repeats = 1", f"repeats = {REPEATS}"))
    return path


def busy_repeats(folder: Path) -> list[int]:
    """Repeats whose result met other work."""
    sql = (
        "select repeat from trial join phase using (trial_id) join metric using (phase_id)"
        " where metric.name = 'other_cores' and value > 1 order by repeat"
    )
    with RunReader(folder) as reader:
        assert len(reader.rows("select * from trial where status = 'ok'")) == REPEATS
        return [row["repeat"] for row in reader.rows(sql)]


def test_disturbed_trials_are_measured_again_within_the_time(inside: Inside, suite: Path) -> None:
    done = inside("run", str(suite), "--no-report", "--format", "jsonl")
    assert done.code == 0, done.err
    assert "3 trials met other work on the machine: measured again" in done.err
    assert "--no-remeasure" in done.err
    folder = Path(json.loads(done.out)["folder"])
    assert [measured[repeat] for repeat in (2, 3, 4, 5)] == [1, 2, 2, 2]
    assert busy_repeats(folder) == [5], "what then failed keeps its first result"
    assert "failed when it was measured again; its first result stays" in done.err


def test_without_it_the_run_is_left_as_it_is(inside: Inside, suite: Path) -> None:
    done = inside("run", str(suite), "--no-report", "--no-remeasure", "--format", "jsonl")
    assert busy_repeats(Path(json.loads(done.out)["folder"])) == [3, 4, 5]
    assert set(measured.values()) == {1}
    assert "met other work" not in done.err


def test_what_does_not_fit_is_named_with_the_command(inside: Inside, suite: Path) -> None:
    suite.write_text(suite.read_text().replace(f"repeats = {REPEATS}", "repeats = 5"))
    done = inside("run", str(suite), "--no-report", "--format", "jsonl")
    folder = json.loads(done.out)["folder"]
    assert f"vectrial run --resume {folder} --remeasure-disturbed measures them again" in done.err
    assert set(measured.values()) == {1}


def test_the_plan_says_so_beforehand(inside: Inside, suite: Path) -> None:
    plan = inside("run", str(suite), "--dry-run")
    assert "up to 15% more if the machine is disturbed" in " ".join(plan.out.split())


class Lacking(Recorded):
    """There is no room on the disk when repeat 2 is first measured."""

    def measure(self, job: Job) -> None:
        for trial in job.trials:
            measured[trial.row.repeat] += 1
            if trial.row.repeat == 2 and measured[2] == 1:
                said = "this machine lacked room on a disk, which is no fault of the store: full"
                self.write(TrialRecord(trial.row, "failed", said))
                continue
            phase = Phase("search", 0, 10**9, {"k": self.rules.k}, FIGURES, role=Role.SEARCH)
            self.write(TrialRecord(trial.row, "ok", phases=[phase], metrics=[]))


def test_a_run_of_which_the_machine_lacked_something_has_not_succeeded(
    inside: Inside, suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "JobRunner", Lacking)
    done = inside("run", str(suite), "--no-report", "--no-remeasure", "--format", "jsonl")
    last = json.loads(done.out)
    assert (done.code, last["trials"]) == (1, {"ok": REPEATS - 1, "failed": 1})
    assert "this machine lacked something in 1 trial: make room for it, and go on with" in done.err
    again = inside("run", "--resume", last["folder"], "--no-report", "--no-remeasure")
    assert again.code == 0, again.err
    assert measured[1] == 1
    assert measured[2] == 2
