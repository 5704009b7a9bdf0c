"""A store, an experiment and a dataset of another package: listed, measured, reported; and one that
is broken."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = """
name = "theirs"
repeats = 1
[[datasets]]
name = "spiral-8-600"
[[stores]]
store = "scan"
[[stores]]
store = "memory"
index = "flat"
[[experiments]]
experiment = "self_search"
samples = 20
"""


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "vectrial.cli.main", *arguments]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)


def listed(folder: Path, *arguments: str) -> list[dict[str, object]]:
    done = call(folder, *arguments, "--format", "jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_they_are_listed_beside_vectrials_own(site: Path, tmp_path: Path) -> None:
    (store,) = listed(tmp_path, "stores", "scan")
    assert (store["works"], store["title"]) == (True, "Scan of a third party")
    experiments = {one["experiment"]: one for one in listed(tmp_path, "experiments")}
    assert experiments["self_search"]["parameters"] == {"samples": 50}
    assert "search" in experiments
    datasets = {one["name"]: one for one in listed(tmp_path, "data", "list")}
    assert datasets["spiral-8-600"]["rows"] == 600
    assert "glove-words-50" in datasets


@pytest.mark.slow
def test_they_are_measured_and_reported(site: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs.toml").write_text(SUITE)
    done = call(tmp_path, "run", "theirs.toml")
    assert done.returncode == 0, done.stderr
    run = done.stdout.strip()
    measured = listed(tmp_path, "report", run)
    found = {
        (one["store"], one["experiment"], one["dataset"]): one["value"]
        for one in measured
        if one.get("metric") == "recall_mean"
    }
    assert found == {(s, "self_search", "spiral-8-600"): 1.0 for s in ("scan", "memory")}
    (page,) = (tmp_path / "runs").glob("*-theirs/report/report.html")
    text = page.read_text(encoding="utf-8")
    for name in ("scan", "self_search", "spiral-8-600"):
        assert name in text
    # Without the package the results are read all the same.
    for path in site.iterdir():
        path.rename(tmp_path / path.name)
    assert listed(tmp_path, "report", run) == measured


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "command"),
    [("store", ["stores"]), ("experiment", ["experiments"]), ("dataset", ["data", "list"])],
)
def test_a_broken_one_is_a_line_and_breaks_nothing_else(
    kind: str, command: list[str], site: Path, tmp_path: Path
) -> None:
    (site / "vectrial_third_party" / f"{kind}.py").write_text("import no_such_library\n")
    done = call(tmp_path, *command, "--format", "jsonl")
    assert done.returncode == 0
    told = [line for line in (done.stdout + done.stderr).splitlines() if "no_such_library" in line]
    assert len(told) == 1
    assert "package 'vectrial-third-party', entry point '" in told[0]
    assert "repair or uninstall the package" in told[0]
    tiny = SUITE.replace("spiral-8-600", "clustered-8-500").replace("self_search", "storage")
    tiny = tiny.replace("samples = 20\n", "").replace('[[stores]]\nstore = "scan"\n', "")
    (tmp_path / "tiny.toml").write_text(tiny)
    planned = call(tmp_path, "run", "tiny.toml", "--dry-run", "--format", "jsonl")
    assert planned.returncode == 0, planned.stderr
    assert len(planned.stdout.splitlines()) == 1
