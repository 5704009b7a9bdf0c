"""A folder of runs, and the application over it."""

from __future__ import annotations

from pathlib import Path

import pytest
from served import Client, client_of
from starlette.testclient import TestClient

from synthetic import SCRIPT, write_run
from vectrial.serve.runs import Runs


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, one of them further down, and a link to one."""
    root = tmp_path_factory.mktemp("runs")
    stores = {name: (1.0, "hnsw", name != "broken") for name in ("faiss", "broken", SCRIPT)}
    first = write_run(root / "first", stores=stores, efs=(16, 64), builds=((16, 128),))
    (first / "suite.toml").write_text(f'name = "demo"\ndescription = "{SCRIPT}"\n')
    (first / "environment.json").write_text("{}\n")
    few = {"faiss": (0.8, "hnsw", True), "hnswlib": (1.0, "hnsw", True)}
    write_run(root / "deep" / "second", stores=few, efs=(16, 64), builds=((16, 128),), repeats=2)
    (root / "latest").symlink_to("first", target_is_directory=True)
    return root


@pytest.fixture(scope="session")
def runs(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Read, with a cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VECTRIAL_HOME", str(tmp_path_factory.mktemp("home")))
        found = Runs(folder)
    found.read_all()
    return found


@pytest.fixture
def client(runs: Runs) -> Client:
    """Makes a client of the application, by default as a browser on this machine asks."""

    def make(host: str = "localhost:8877", **access: object) -> TestClient:
        return client_of(runs, host, **access)

    return make
