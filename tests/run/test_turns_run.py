"""Whole runs in which stores take turns, each in its own process."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from small_suite import Inside, Vectrial

from vectrial.analysis.run_data import load
from vectrial.analysis.trial import Slices
from vectrial.results.reader import RunReader
from vectrial.run.slice_lengths import LEAST_ROUNDS

SUITE = """
name = "turns"
order = "turns"
repeats = 1
k = 10
datasets = [{ name = "clustered-16-2k", queries = 200 }]
stores = [
    { store = "hnswlib", params = { m = 8, ef_construction = 40 } },
    { store = "usearch", params = { m = 8, ef_construction = 40 } },
]
experiments = [
    { experiment = "search", search = { ef_search = [10, 40] }, min_s = 1.0 },
    { experiment = "search", clients = 2, min_s = 1.0 },
    { experiment = "storage" },
    { experiment = "crud", samples = 20 },
]
"""


def spans(folder: Path) -> list[tuple[float, float, str]]:
    """Every slice of a run: its begin and end in seconds since 1970, and its store."""
    with RunReader(folder) as run:
        rows = run.rows(
            "select epoch(t.started_at) + s.began_s as began, s.seconds, t.store from slice s"
            " join phase p using (phase_id) join trial t using (trial_id) order by began"
        )
    return [(row["began"], row["began"] + row["seconds"], row["store"]) for row in rows]


@pytest.mark.slow
def test_stores_take_turns_in_one_second(vectrial: Vectrial, tmp_path: Path) -> None:
    suite = tmp_path / "turns.toml"
    suite.write_text(SUITE)
    done = vectrial("run", str(suite), "--no-report")
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    run = load(folder)
    assert {trial.status for trial in run.trials} == {"ok"}, done.stderr
    searched = {
        trial.trial_id: phase for trial, phase in run.phases() if trial.experiment == "search"
    }
    assert len(searched) == 6  # of each store two settings of one client, and two clients
    arms = [run.slices[phase.phase_id] for phase in searched.values()]
    rounds = {tuple(arm.rounds.tolist()) for arm in arms}
    assert len(rounds) == 1, "each round has a slice of every load"
    assert len(arms[0].rounds) >= LEAST_ROUNDS
    _check_figures(run.slices, searched)
    # No two slices overlap, whichever processes they are of: up to what a date is worth.
    times = spans(folder)
    assert {store for _, _, store in times} == {"hnswlib", "usearch"}
    assert all(before[1] <= after[0] + 0.002 for before, after in pairwise(times))
    others = {trial.experiment for trial in run.trials if trial.trial_id not in searched}
    assert others == {"storage", "crud"}
    _check_verdict(vectrial, folder)


def _check_figures(slices: Any, searched: Any) -> None:
    for phase in searched.values():
        arm: Slices = slices[phase.phase_id]
        assert phase.value("count") == arm.counts.sum()
        rate = arm.counts.sum() / arm.seconds.sum()
        assert phase.value("qps") == pytest.approx(rate, rel=1e-3)
        assert 0 < phase.value("littles_law") <= 1.01
        assert phase.value("recall_mean") > 0.5
        assert all(arm.latencies)
        assert arm.idle_cores is not None


def _check_verdict(vectrial: Vectrial, folder: Path) -> None:
    """One load of each suffices for a verdict on these indexes."""
    said = vectrial(
        "compare", str(folder), "--store", "usearch", "--store", "hnswlib", "--format", "jsonl"
    )
    assert said.returncode in (0, 1), said.stderr
    rows = [json.loads(line) for line in said.stdout.splitlines()]
    verdicts = [row for row in rows if row.get("metric") == "qps"]
    assert verdicts, said.stdout
    assert any("of these indexes" in str(row.get("reason")) for row in verdicts)


@pytest.mark.usefixtures("in_process")
def test_a_run_in_turns_is_gone_on_with(inside: Inside, tmp_path: Path) -> None:
    """In one process, where each store takes turns with itself alone."""
    suite = tmp_path / "turns.toml"
    suite.write_text(SUITE)
    done = inside("run", str(suite), "--no-report", "--store", "usearch")
    assert done.code == 0, done.err
    folder = done.out.strip().splitlines()[-1]
    again = inside("run", "--resume", folder, "--no-report", "--repeats", "2")
    assert again.code == 0, again.err
    with RunReader(Path(folder)) as run:
        found = run.rows(
            "select t.repeat, count(distinct p.phase_id) as loads, count(distinct s.session) as n"
            " from slice s join phase p using (phase_id) join trial t using (trial_id)"
            " group by t.repeat order by t.repeat"
        )
    assert [(row["repeat"], row["loads"]) for row in found] == [(1, 3), (2, 3)]
