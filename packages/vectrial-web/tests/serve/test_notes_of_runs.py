"""The note on a run, in the list of runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic_runs import STORES, write_run

from vectrial.results import note
from vectrial_web.serve.runs import Runs, summary_of

TEXT = "new <b>disk</b>"


def test_a_list_of_runs_has_it_and_sees_that_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    run = tmp_path / "runs" / "one"
    write_run(run, repeats=1, stores={"faiss": STORES["faiss"]}, only_sweep=True)
    assert summary_of(run).note == ""
    runs = Runs(run.parent)
    runs.read_all()
    note.write(run, TEXT)
    runs.read_all()
    (listed,) = runs.listing()
    assert listed.summary is not None
    assert listed.summary.note == TEXT
