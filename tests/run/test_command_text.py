"""What commands print for a person: whole, and readable where it is narrow."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from vectrial.cli.main import app
from vectrial.nearest import suggestion


def printed(*arguments: str, columns: int = 100) -> str:
    done = CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(columns)})
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize(
    ("command", "whole"),
    [
        ("experiments", "[[experiments]]"),
        ("report", "[RUN]"),
        ("data import", "FILE"),
        ("data fetch", "NAME..."),
        ("stores", "vectrial stores faiss"),
        ("run", "vectrial run --resume runs/latest"),
    ],
)
def test_help_is_not_taken_for_markup(command: str, whole: str) -> None:
    assert whole in printed(*command.split(), "--help")


def test_a_plan_has_a_line_per_load_and_says_what_is_skipped(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path))
    suite.write_text(
        suite.read_text()
        + '[[stores]]\nstore = "milvus-lite"\nindex = "flat"\nexperiments = ["concurrency"]\n'
    )
    plan = printed("run", str(suite), "--dry-run", columns=120)
    loads = [line.split() for line in plan.splitlines() if "clustered-16-2k" in line]
    found = {(load[0], load[load.index("clustered-16-2k") + 1]) for load in loads}
    assert found == {
        (store, rows) for store in ("memory", "hnswlib") for rows in ("1,000", "2,000")
    }
    assert len(loads) == 4
    assert "recall_sweep ×2" in plan
    assert "skipped: milvus-lite flat concurrency: milvus-lite must not be searched" in plan


def test_a_remedy_is_short() -> None:
    assert suggestion("hnws", ["hnsw", "flat"]) == "did you mean 'hnsw'?"
    assert suggestion("zzz", ["hnsw", "flat"]) == "one of flat, hnsw"
    assert suggestion("zzz", map(str, range(1000))) == ""
