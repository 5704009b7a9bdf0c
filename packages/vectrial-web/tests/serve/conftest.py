"""A folder of runs, and the application over it; each test has a home of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, browser
from own_home import home
from page_checks import checker
from priced_runs import priced_run
from served_pages import Client, client_of
from starlette.testclient import TestClient
from synthetic_runs import SCRIPT, write_run

from vectrial_web.serve.runs import Runs

__all__ = ["home"]


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
    return read(folder, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def varied(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Two runs of a kind with capacity, costs, servers and both lanes; and one with the rest."""
    root = tmp_path_factory.mktemp("varied")
    for name in ("priced", "again"):
        priced_run().write(root / name)
    stores = {name: (1.0, "hnsw", name != "broken") for name in ("faiss", "hnswlib", "broken")}
    write_run(root / "swept", stores=stores, efs=(16, 64, 128), builds=((16, 128),))
    return read(root, tmp_path_factory.mktemp("home"))


def read(folder: Path, home: Path) -> Runs:
    """The runs of a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VECTRIAL_HOME", str(home))
        found = Runs(folder)
    found.read_all()
    return found


@pytest.fixture(scope="session")
def client(runs: Runs) -> Client:
    """Makes a client of the application, by default as a browser on this machine asks: it asks the
    same application, so that a page is drawn once."""
    browser = client_of(runs)

    def make(host: str = "localhost:8877", **access: object) -> TestClient:
        if access:
            return client_of(runs, host, **access)
        return TestClient(browser.app, base_url=f"http://{host}", follow_redirects=False)

    return make


@pytest.fixture(scope="session")
def varied_client(varied: Runs) -> TestClient:
    """A browser that asks for the varied runs."""
    return client_of(varied)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The accessibility checker, which the repository does not hold."""
    return checker(tmp_path_factory.mktemp("axe"))
