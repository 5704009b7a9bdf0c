"""A store, an experiment and a dataset of another package: listed, measured, reported; and one that
is broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_process import calls, objects

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


@pytest.mark.slow
def test_they_are_listed_beside_vectrials_own(site: Path, tmp_path: Path) -> None:
    stores, experiments, datasets = (
        objects(done)
        for done in calls(
            tmp_path,
            ("stores", "scan", "--format", "jsonl"),
            ("experiments", "--format", "jsonl"),
            ("data", "list", "--format", "jsonl"),
        )
    )
    (store,) = stores
    assert (store["works"], store["title"]) == (True, "Scan of a third party")
    listed = {one["experiment"]: one for one in experiments}
    assert listed["self_search"]["parameters"] == {"samples": 50}
    assert "search" in listed
    data = {one["name"]: one for one in datasets}
    assert data["spiral-8-600"]["rows"] == 600
    assert "glove-words-50" in data


@pytest.mark.slow
def test_they_are_measured_and_reported(site: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs.toml").write_text(SUITE)
    latest = ("report", "runs/latest", "--format", "jsonl")
    done, report = calls(tmp_path, ("run", "theirs.toml"), latest)
    assert done.code == 0, done.err
    measured = objects(report)
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
    assert objects(*calls(tmp_path, latest)) == measured


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "command"),
    [("store", ["stores"]), ("experiment", ["experiments"]), ("dataset", ["data", "list"])],
)
def test_a_broken_one_is_a_line_and_breaks_nothing_else(
    kind: str, command: list[str], site: Path, tmp_path: Path
) -> None:
    (site / "vectrial_third_party" / f"{kind}.py").write_text("import no_such_library\n")
    tiny = SUITE.replace("spiral-8-600", "clustered-8-500").replace("self_search", "storage")
    tiny = tiny.replace("samples = 20\n", "").replace('[[stores]]\nstore = "scan"\n', "")
    (tmp_path / "tiny.toml").write_text(tiny)
    dry = ("run", "tiny.toml", "--dry-run", "--format", "jsonl")
    done, planned = calls(tmp_path, (*command, "--format", "jsonl"), dry)
    assert done.code == 0
    told = [line for line in (done.out + done.err).splitlines() if "no_such_library" in line]
    assert len(told) == 1
    assert "package 'vectrial-third-party', entry point '" in told[0]
    assert "repair or uninstall the package" in told[0]
    assert planned.code == 0, planned.err
    assert len(planned.out.splitlines()) == 1
