"""Stores that live in an environment of their own are tested inside it.

Making the environment is part of the test: where it cannot be made, the test fails, since the
registry that it is made from is what this project installs everything else from. Where this machine
lacks hardware that the store needs, the test is skipped and says so.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from environment_imports import check_imports

from vectrial.experiments.registry import EXPERIMENTS
from vectrial.model.capabilities import Environment
from vectrial.model.store import Store
from vectrial.servers.base import NoProgram
from vectrial.servers.provide import recipe_of
from vectrial.stores import registry
from vectrial.testing.run import conformance
from vectrial.testing.server_programs import no_program
from vectrial.util import environments
from vectrial_reproduce.stores.docarray.documents import ENVIRONMENT as DOCARRAY

HERE = Path(__file__).parent
STORES = [s for s in map(registry.load, registry.names()) if s.environment is not None]
CASES = [
    pytest.param(
        store,
        id=store.name,
        marks=[pytest.mark.store(store.name), *([pytest.mark.server] if store.server else [])],
    )
    for store in STORES
]


def run_inside(environment: Environment, *arguments: str) -> str:
    """Run pytest with these arguments inside `environment`; returns what it printed, or fails
    with it."""
    run = environments.command(
        environment,
        "pytest",
        ["-q", "-p", "no:cacheprovider", *arguments],
        lambda line: print(line, file=sys.stderr),
        classes=[store for store in STORES if store.environment == environment],
    )
    done = subprocess.run(
        run.argv, env=run.env, cwd=HERE.parents[3], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.fail(f"inside '{environment.name}':\n{done.stdout}{done.stderr}", pytrace=False)
    return done.stdout


def test_there_are_such_stores() -> None:
    servers = {f"docarray-{one}" for one in ("elasticsearch", "qdrant", "redis", "weaviate")}
    libraries = {"annlite", "docarray-annlite", "docarray-memory", "docarray-sqlite"}
    assert servers | libraries <= {store.name for store in STORES}
    assert {store.name for store in STORES if store.server is not None} >= servers


# A whole suite is one test here: DocArray's on Elasticsearch took 128 s on a quiet machine and
# 556 s on a busy one.
@pytest.mark.timeout(1500)
@pytest.mark.slow
@pytest.mark.parametrize("store", CASES)
def test_conformance(store: type[Store]) -> None:
    assert store.environment is not None
    if lacks := environments.missing_hardware(store.environment):
        pytest.skip(f"{store.name} {lacks}")
    output: list[str] = []
    try:
        checks = conformance(store, show=output.append)
    except NoProgram as error:
        recipe = recipe_of(store)
        assert recipe is not None
        no_program(recipe, error)
    assert [check for check in checks if check.outcome == "failed"] == [], "\n".join(output)
    assert sum(check.outcome == "passed" for check in checks) >= 20


@pytest.mark.slow
def test_a_failure_inside_is_shown(tmp_path: Path) -> None:
    (tmp_path / "test_wrong.py").write_text("def test_wrong():\n    assert 6 * 7 == 43\n")
    with pytest.raises(pytest.fail.Exception, match="assert \\(6 \\* 7\\) == 43"):
        run_inside(DOCARRAY, str(tmp_path / "test_wrong.py"))


@pytest.mark.slow
def test_what_is_particular_to_annlite_and_docarray() -> None:
    run_inside(DOCARRAY, str(HERE / "inside_docarray.py"))


# -- what measures imports in every environment that a store has for itself -----------------------


MEASURES = ("experiments", "segments", "stores", "detection")


@pytest.mark.slow
@pytest.mark.parametrize("name", environments.names())
def test_what_the_measuring_process_needs_imports_there(name: str) -> None:
    """The reference server of the Flight protocol is a program of its own, and imports a library
    for texts."""
    check_imports(
        name,
        [f"vectrial_reproduce.{package}" for package in MEASURES],
        classes=(EXPERIMENTS["anomaly"],),
        apart="vectrial_reproduce.stores.flight.reference",
    )
