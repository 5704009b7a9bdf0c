"""A whole run, end to end, on real stores: every table filled, every row sound."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_suite import TRIALS, Inside, Vectrial

from vectrial.model.results_schema import EXPORT_KEYS
from vectrial.results.reader import RunReader

pytestmark = pytest.mark.slow


def test_a_suite_from_dry_run_to_export(vectrial: Vectrial, suite: Path, tmp_path: Path) -> None:
    plan = vectrial("run", str(suite), "--dry-run")
    assert plan.returncode == 0, plan.stderr
    assert f"{TRIALS} trials" in plan.stdout
    assert not (tmp_path / "runs").exists()

    done = vectrial("run", str(suite))
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert (tmp_path / "runs" / "latest").resolve() == folder
    assert {p.name for p in folder.iterdir()} >= {
        "run.duckdb", "suite.toml", "environment.json", "logs", "report",
    }  # fmt: skip
    assert not (folder / "work").exists(), "stores' data is removed after its job"
    _check_tables(folder)
    exported = vectrial("report", str(folder), "--format", "jsonl")
    rows = [json.loads(line) for line in exported.stdout.splitlines()]
    assert all(list(row)[: len(EXPORT_KEYS)] == list(EXPORT_KEYS) for row in rows)
    assert {row["store"] for row in rows} == {"memory", "hnswlib"}


def _check_tables(folder: Path) -> None:
    with RunReader(folder) as run:
        bad = run.rows("select store, experiment, status, reason from trial where status <> 'ok'")
        assert bad == []
        assert run.rows("select count(*) as n from trial")[0]["n"] == TRIALS
        measured = run.measured()
        searched = [m for m in measured if m["phase"] == "search"]
        for metric in ("qps", "recall_mean", "errors", "latency_p50", "latency_p99", "count"):
            assert all(m["value"] is not None for m in searched if m["metric"] == metric), metric
        exact = [
            m["value"] for m in searched if m["store"] == "memory" and m["metric"] == "recall_mean"
        ]
        assert exact
        assert set(exact) == {1.0}
        law = [m["value"] for m in searched if m["metric"] == "littles_law"]
        assert law
        assert max(law) <= 1.01
        ineffective = [m["value"] for m in measured if m["metric"] == "ineffective"]
        assert ineffective
        assert not any(ineffective)
        assert run.rows("select count(*) as n from gate where passed = false")[0]["n"] == 0
        assert run.rows("select count(*) as n from gate where passed")[0]["n"] > 0
        assert run.rows("select count(*) as n from telemetry")[0]["n"] > 0
        assert run.rows("select count(*) as n from histogram")[0]["n"] > 0
        assert run.run()["environment"]["cpu"]
        # what was loaded, not what the dataset has: a checkpoint has half the rows
        datasets = run.rows("select name, rows, queries, raw_bytes from dataset order by rows")
        assert datasets == [
            {"name": "clustered-16-2k", "rows": n, "queries": 50, "raw_bytes": n * 16 * 4}
            for n in (1000, 2000)
        ]
        cut = {m["rows"]: m["value"] for m in measured if m["metric"] == "raw_bytes"}
        assert cut == {2000: 2000 * 16 * 4}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["run"], "no suite given"),
        (["run", "absent.toml"], "absent.toml"),
        (["run", "--resume", "absent"], "no run here to resume"),
        (["report", "absent"], "no run here"),
        (["run", "--frobnicate"], "No such option"),
        (["run", "{suite}", "--store", "memry"], "did you mean 'memory'?"),
    ],
)
def test_wrong_commands_exit_2_with_one_message(
    inside: Inside, suite: Path, arguments: list[str], named: str
) -> None:
    done = inside(*(word.format(suite=suite) for word in arguments))
    assert done.code == 2, done.err
    assert named in done.err
    assert "Traceback" not in done.err
