"""A folder that is shown stays as it is, in every format."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_calls import call

from vectrial_reproduce.reports.published import figures

COMMITTED = Path(__file__).resolve().parents[4] / "docs" / "results" / "aistor-index"


def contents(folder: Path) -> dict[Path, tuple[int, bytes]]:
    """The files in and below a folder, with the times of their last changes."""
    return {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("form", ["table", "md", "jsonl", "html"])
def test_showing_a_committed_reproduction_writes_nothing(tmp_path: Path, form: str) -> None:
    folder = shutil.copytree(COMMITTED, tmp_path / "shown")
    before = contents(tmp_path)
    done = call("reproduce", "--show", folder, "-f", form)
    assert done.code == 0, done.err
    assert contents(tmp_path) == before
    begins = {"md": "# Benchmarking", "html": "<!doctype html>", "jsonl": "{"}
    assert done.out.lstrip().lower().startswith(begins.get(form, "").lower())
    if form == "jsonl":
        shown = [json.loads(line) for line in done.out.splitlines()]
        assert [cell["published"] for cell in shown] == [f.value for f in figures("aistor-index")]
