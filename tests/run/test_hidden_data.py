"""Code of a store does not reach datasets and truths on the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vectrial.datasets import catalog
from vectrial.model.store import Store
from vectrial.plan.plan import make_plan
from vectrial.results.reader import RunReader
from vectrial.results.writer import RunWriter
from vectrial.run.prepare import shape_of
from vectrial.run.runner import run_plan
from vectrial.servers.namespaces import can_cover_folders
from vectrial.suite.model import parse_suite

DATASET = "clustered-16-2k"
SUITE = f"""
name = "peek"
repeats = 1
[[datasets]]
name = "{DATASET}"
queries = 50
[[stores]]
store = "peeking"
[[experiments]]
experiment = "search"
min_s = 0.05
[[experiments]]
experiment = "filtered"
selectivities = [0.1]
predicates = ["independent"]
min_s = 0.05
"""


class Silent:
    """Nobody looks on."""

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


@pytest.mark.slow
@pytest.mark.skipif(not can_cover_folders(), reason="only root may hide folders")
def test_a_store_finds_no_answers_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, home = tmp_path / "notes", tmp_path / "home"
    monkeypatch.setenv("VECTRIAL_HOME", str(home))
    catalog.ensure(DATASET, lambda *_: None)
    from peeking_store import NOTES, Peeking  # before it looks: here it could

    monkeypatch.setenv(NOTES, str(notes))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "support"), prepend=os.pathsep)
    monkeypatch.setenv("VECTRIAL_PASS", f"{NOTES},PYTHONPATH")

    def load_store(name: str) -> type[Store]:
        return Peeking

    plan = make_plan(
        parse_suite(SUITE, "t.toml"),
        where="t.toml",
        load_store=load_store,
        shape_of=shape_of,
        known_stores=["peeking"],
    )
    with RunWriter(tmp_path / "run") as writer:
        writer.begin(suite_name="peek", command="", version="0", environment={})
        run_plan(plan, writer, Silent())  # type: ignore[arg-type]  # it has every method
        writer.finish()
    with RunReader(tmp_path / "run") as run:
        trials = run.rows("select experiment, status, reason from trial")
    assert [trial["status"] for trial in trials] == ["ok"] * 3, trials
    said = notes.read_text().splitlines()
    assert {line.partition(":")[0] for line in said} == {"import", "search"}
    assert {line.partition(": ")[2] for line in said} == {"[]"}
    assert list((home / "datasets").rglob("queries.npy")), "they are there for everybody else"
    assert os.geteuid() == 0
