"""A small real suite, run through the command line as a person would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SUITE = """
name = "small"
repeats = 2
k = 10
[[datasets]]
name = "clustered-16-2k"
queries = 50
[[stores]]
store = "memory"
index = "flat"
[[stores]]
store = "hnswlib"
index = "hnsw"
params = { m = 8, ef_construction = 40 }
[[experiments]]
experiment = "ingest"
checkpoints = [0.5, 1.0]
[[experiments]]
experiment = "footprint"
[[experiments]]
experiment = "recall_sweep"
search = { ef_search = [16, 64] }
min_s = 0.3
[[experiments]]
experiment = "concurrency"
clients = [1, 2]
search = { ef_search = 32 }
duration_s = 0.3
[[experiments]]
experiment = "crud"
samples = 200
search = { ef_search = 32 }
"""
#: Per repeat: memory 2 + 1 + 1 + 2 + 1, hnswlib 2 + 1 + 2 + 2 + 1.
TRIALS = 2 * (7 + 8)

Vectrial = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SUITE)
    return path


@pytest.fixture(scope="session")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {**os.environ, "VECTRIAL_HOME": str(tmp_path_factory.mktemp("home"))}


@pytest.fixture
def vectrial(tmp_path: Path, variables: dict[str, str]) -> Vectrial:
    """Run the command in an empty folder and return what it printed."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "vectrial.cli.main", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=variables,
            timeout=300,
            check=False,
        )

    return run
