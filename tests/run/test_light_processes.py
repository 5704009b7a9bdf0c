"""What the processes of a real run have loaded: memory and time of a library are its own."""

from __future__ import annotations

import json
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
from installed_package import install
from small_suite import Vectrial

pytestmark = pytest.mark.slow
SUITE = """
name = "light"
repeats = 1
datasets = [{ name = "clustered-16-2k", queries = 20 }]
stores = [{ store = "watched", index = "hnsw" }]
experiments = [{ experiment = "search", min_s = 0.1 }]
"""
#: A store of a package: hnswlib, which notes what its process has loaded.
STORE = """
import json, sys
from pathlib import Path
from vectrial.stores.hnswlib import HnswlibStore

NOTES = Path(__file__).with_name("notes.jsonl")

def note(when):
    with NOTES.open("a") as file:
        file.write(json.dumps([when, sorted(sys.modules)]) + "\\n")

class Watched(HnswlibStore):
    name = "watched"

    def __init__(self, location):
        note("before it is opened")
        super().__init__(location)

    def close(self):
        super().close()
        note("when it is closed")
"""
#: Notes what the process of the command has loaded at its end.
COMMAND = """
import atexit, json, sys
from pathlib import Path

def note():
    if "vectrial.cli.app" in sys.modules:
        path = Path(__file__).with_name("command.json")
        path.write_text(json.dumps(sorted(sys.modules)))

atexit.register(note)
"""
#: What no measuring process needs; a library that needs one of them imports it itself.
FOREIGN = {"pandas", "scipy", "duckdb", "typer", "rich"}


@pytest.fixture
def package(tmp_path: Path, variables: dict[str, str]) -> Path:
    """A folder on the path of every process, with the store in it."""
    folder = install(
        tmp_path / "package",
        "watched",
        "[vectrial.stores]\nwatched = watched_store:Watched\n",
        watched_store=STORE,
        sitecustomize=COMMAND,
    )
    variables["PYTHONPATH"] = str(folder)
    return folder


def loaded(modules: list[str], names: set[str]) -> set[str]:
    """Those of `names` that are among the modules."""
    return names & {module.partition(".")[0] for module in modules}


def test_processes_of_a_run_load_what_they_use(
    package: Path, vectrial: Vectrial, tmp_path: Path
) -> None:
    lacking = FOREIGN - {one.name for one in distributions()}
    assert not lacking, "the test needs every extra"
    (tmp_path / "light.toml").write_text(SUITE)
    done = vectrial("run", "light.toml", "--no-report")
    assert done.returncode == 0, done.stderr
    notes: list[Any] = [
        json.loads(line) for line in (package / "notes.jsonl").read_text().splitlines()
    ]
    assert {when for when, _ in notes} == {"before it is opened", "when it is closed"}
    for when, modules in notes:
        assert "numpy" in modules
        assert loaded(modules, FOREIGN) == set(), f"the measuring process, {when}"
    command = json.loads((package / "command.json").read_text())
    assert loaded(command, {"pandas", "vl_convert"}) == set()
