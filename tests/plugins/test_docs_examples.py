"""The whole store and the whole experiment of the pages run as they stand there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from installed_package import install
from one_process import calls, objects

DOCS = Path(__file__).parents[2] / "docs"
SUITE = """
name = "examples"
repeats = 1
[[datasets]]
name = "clustered-16-2k"
queries = 50
[[stores]]
store = "mystore"
[[experiments]]
experiment = "second_pass"
seconds = 0.2
"""


def block(page: str, language: str) -> str:
    """The first block of a page in this language."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where processes find both pages' classes, registered as the pages say."""
    pages = ("adding-a-store.md", "adding-an-experiment.md")
    entries = "\n".join(block(page, "toml") for page in pages)
    entries = entries.replace("project.entry-points.", "").replace('"', "")
    module = "\n\n".join(block(page, "python") for page in pages)
    site = install(tmp_path / "site", "my_package", entries, my_package=module)
    monkeypatch.setenv("PYTHONPATH", str(site))
    return tmp_path


@pytest.mark.slow
def test_they_run_in_a_suite(folder: Path) -> None:
    (folder / "examples.toml").write_text(SUITE)
    measure = ("run", "examples.toml", "--no-report", "--format", "jsonl")
    report = ("report", "runs/latest", "--format", "jsonl")
    done, told = calls(folder, measure, report, in_process=True)
    assert done.code == 0, done.err
    assert json.loads(done.out)["trials"] == {"ok": 1}
    found = {one["phase"]: one["value"] for one in objects(told) if one.get("metric") == "qps"}
    assert set(found) == {"first", "second"}
    assert min(found.values()) > 0


@pytest.mark.slow
def test_the_store_passes_the_conformance_suite(folder: Path) -> None:
    (done,) = calls(folder, ("conformance", "mystore", "--format", "jsonl"))
    assert done.code == 0, done.err
    checks = [json.loads(line) for line in done.out.splitlines()]
    assert sum(check["outcome"] == "passed" for check in checks) > 20
