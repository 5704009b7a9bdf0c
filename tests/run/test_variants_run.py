"""Whole runs of two variants of a store: two releases of a library, and two servers, in turns."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from small_suite import Inside, Vectrial

from vectrial.analysis.run_data import load
from vectrial.stores.redis.server import REDIS
from vectrial.testing.server_programs import program

#: Another release than the one that is installed.
OLD = "2.23.0"
SUITE = """
name = "releases"
order = "turns"
repeats = 1
datasets = [{ name = "clustered-16-2k", queries = 200 }]
stores = [
    { store = "usearch", variant = "old", params = { m = 8, ef_construction = 40 } },
    { store = "usearch", variant = "new", params = { m = 8, ef_construction = 40 } },
]
experiments = [{ experiment = "search", search = { ef_search = [10, 40] }, min_s = 0.5 }]
"""


@pytest.mark.slow
def test_two_releases_of_a_library_are_compared_in_one_run(
    vectrial: Vectrial, variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(variables, "VECTRIAL_USEARCH_PACKAGES__OLD", f"usearch=={OLD}")
    suite = tmp_path / "releases.toml"
    suite.write_text(SUITE)
    done = vectrial("run", str(suite), "--no-report")
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    run = load(folder)
    assert run.stores == ("usearch@old", "usearch@new")
    versions = {trial.series.store: trial.store_version for trial in run.trials}
    assert versions["usearch@old"] == OLD
    assert versions["usearch@new"] != OLD
    assert f"usearch@old: measured with the packages usearch=={OLD}" in done.stderr
    said = vectrial(
        "compare", str(folder), "--store", "usearch@old", "--store", "usearch@new",
        "--format", "jsonl",
    )  # fmt: skip
    assert said.returncode in (0, 1), said.stderr
    rows = [json.loads(line) for line in said.stdout.splitlines()]
    verdicts = [row for row in rows if row.get("metric") == "qps"]
    assert any("of these indexes" in str(row.get("reason")) for row in verdicts), said.stdout
    report = vectrial("report", str(folder))
    assert report.returncode == 0, report.stderr
    assert "usearch@old" in (folder / "report" / "report.html").read_text()


SERVERS = (
    SUITE.replace('"usearch"', '"redis"').replace("[10, 40]", "[40]").replace("-2k", "-2k-cosine")
)


@pytest.mark.server("redis")
@pytest.mark.slow
def test_two_servers_of_one_store_are_two_processes(
    vectrial: Vectrial, variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program of one is a copy of the other's, in a folder that has the runs in it."""
    tmp_path.chmod(0o755)
    built = tmp_path / "redis-just-built"
    shutil.copy(program(REDIS), built)
    monkeypatch.setitem(variables, "VECTRIAL_REDIS_BIN", str(program(REDIS)))
    monkeypatch.setitem(variables, "VECTRIAL_REDIS_BIN__NEW", str(built))
    suite = tmp_path / "releases.toml"
    suite.write_text(SERVERS)
    done = vectrial("run", str(suite), "--no-report")
    assert done.returncode == 0, done.stderr
    run = load(Path(done.stdout.strip().splitlines()[-1]))
    programs = {t.series.store: (t.server or {}).get("program") for t in run.trials}
    assert set(programs) == {"redis@old", "redis@new"}
    assert "redis-just-built" in str(programs["redis@new"])
    assert "redis-just-built" not in str(programs["redis@old"])
    rounds = [arm.rounds.tolist() for arm in run.slices.values()]
    assert len(rounds) == 2
    assert rounds[0] == rounds[1]


def test_a_program_that_is_missing_is_told_by_the_variants_variable(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VECTRIAL_REDIS_BIN__NEW", str(tmp_path / "nothing"))
    monkeypatch.setenv("VECTRIAL_REDIS_PROVIDER", "local")
    suite = tmp_path / "releases.toml"
    suite.write_text(SERVERS)
    done = inside("run", str(suite), "--out", str(tmp_path / "runs"))
    assert done.code == 2
    assert "VECTRIAL_REDIS_BIN__NEW" in done.err
    assert not (tmp_path / "runs").exists()


def test_a_suite_with_variants_is_planned(inside: Inside, tmp_path: Path) -> None:
    suite = tmp_path / "releases.toml"
    suite.write_text(SUITE)
    done = inside("run", str(suite), "--dry-run")
    assert done.code == 0, done.err
    assert re.search(r"usearch@old.*usearch@new", done.out, re.DOTALL)


def test_packages_that_make_no_sense_stop_the_run(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VECTRIAL_USEARCH_PACKAGES__OLD", "missing.whl")
    suite = tmp_path / "releases.toml"
    suite.write_text(SUITE)
    done = inside("run", str(suite), "--out", str(tmp_path / "runs"))
    assert done.code == 2
    assert "there is no file missing.whl" in done.err
    assert not (tmp_path / "runs").exists()
