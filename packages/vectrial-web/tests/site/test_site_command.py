"""`vectrial site`: what goes to stdout and stderr, and its exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_calls import call

RESULTS = Path(__file__).parents[4] / "docs" / "results"
BUNDLE = RESULTS / "durability" / "weaviate-power-cuts" / "run.vectrial.tar.gz"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A bundle, and a file that is none."""
    folder = tmp_path / "runs"
    (folder / "weaviate").mkdir(parents=True)
    shutil.copy(BUNDLE, folder / "weaviate")
    (folder / "torn.vectrial.tar.gz").write_bytes(b"no bundle")
    return folder


def test_the_page_goes_to_stdout_and_what_was_not_read_to_stderr(
    runs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "site"
    done = call("site", runs, "--out", out, "--jobs", 1, "--figures", 0)
    assert done.code == 0, done.err
    assert done.out == f"{out / 'index.html'}\n"
    assert "torn: not read: " in done.err
    again = call("site", runs, "--out", out, "--jobs", 1, "--figures", 0, "--format", "jsonl")
    torn, read = map(json.loads, again.out.splitlines())
    assert torn["run"] == "torn"
    assert torn["page"] is None
    assert torn["why"]
    assert read == {"run": "weaviate", "page": str(out / "runs/weaviate/index.html"), "why": None}
    assert Path(read["page"]).is_file()


def test_bad_input_is_refused_before_anything_is_read(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    refused = call("site", runs, "--out", tmp_path / "mine")
    assert refused.code == 2
    assert "something else than a site" in refused.err
    address = call("site", runs, "--out", tmp_path / "site", "--base-url", "results")
    assert address.code == 2
    assert "not an address" in address.err
    missing = call("site", tmp_path / "none", "--out", tmp_path / "site")
    assert missing.code == 2
    assert "no such file or folder" in missing.err
    assert not (tmp_path / "site").exists()
