"""Fixtures of the conformance suite, which runs every check over the stores, indexes and metrics
that can change its outcome: see `cases`. VECTRIAL_EVERY_CASE=1 runs it over all of them.

The stores are those that are registered, or those that VECTRIAL_STORES names as
`module:Class`, comma-separated: how the suite runs inside a store's own environment, where
nothing is registered. VECTRIAL_STORES may name registered stores too, to run only those.

VECTRIAL_OUTCOMES names a file for how each check ended, one JSON object a line: `check` (the name
of its function), `module`, `case`, `outcome` (passed, failed or skipped) and `reason`.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from vectrial.model.errors import PluginError
from vectrial.model.store import Store
from vectrial.servers.provide import recipe_of
from vectrial.stores import registry
from vectrial.testing.conformance import serving
from vectrial.testing.conformance.cases import cases_of, telling_case, why_not_run
from vectrial.testing.conformance.world import ROWS, Case, World, folder, load, make_world
from vectrial.testing.server_programs import must_run

#: The variable that names the file of outcomes. Where it is set, a check that a store does not
#: declare is skipped; elsewhere there is no such test.
OUTCOMES = "VECTRIAL_OUTCOMES"
#: The check that is skipped, once, for a store that cannot run here.
EVERY_STORE_HAS_IT = "test_version_and_footprint"
#: The case of a check that none of the stores declares.
_NO_CASE = object()


@functools.cache  # every check asks, and to find out whether a server can run takes a while
def _stores() -> tuple[list[type[Store]], dict[str, str]]:
    """The stores to test here, and the reasons why others are skipped."""
    wanted = os.environ.get("VECTRIAL_STORES")
    stores, skipped = [], {}
    for name in wanted.split(",") if wanted else registry.names():
        if ":" in name:
            stores.append(registry.resolve(name))
            continue
        try:
            store = registry.load(name)
        except PluginError as error:
            skipped[name] = str(error)
            continue
        if store.environment is not None:
            continue  # it is tested inside
        available = registry.availability(store)
        if available.works is False and not _must_run(store):
            skipped[name] = available.text
        else:
            stores.append(store)
    return stores, skipped


def _must_run(store: type[Store]) -> bool:
    recipe = recipe_of(store)
    return recipe is not None and must_run(recipe)


def _marks(case: Case) -> list[pytest.MarkDecorator]:
    """The tier of a case: one case of each library is fast, all others are slow."""
    if case.store.server is not None:
        return [pytest.mark.server]
    return [] if case == telling_case(case.store) else [pytest.mark.slow]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Append the outcome of a check to the file that VECTRIAL_OUTCOMES names."""
    path = os.environ.get(OUTCOMES)
    if path is None or (report.when != "call" and report.outcome == "passed"):
        return
    file, _, function = report.nodeid.partition("::")
    check, _, case = function.removesuffix("]").partition("[")
    outcome = {
        "module": Path(file).stem.removeprefix("test_"),
        "check": check,
        "case": case,
        "outcome": report.outcome,
        "reason": _reason(report),
    }
    with Path(path).open("a", encoding="utf-8") as out:
        out.write(json.dumps(outcome) + "\n")


def _reason(report: pytest.TestReport) -> str:
    """Reason why a check did not pass, on one line; empty if it passed."""
    if report.passed:
        return ""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = str(crash.message if crash else report.longrepr).split("\n")
    said = [line.strip() for line in lines if line.strip() not in ("", "AssertionError:")]
    # A list that a line announces is a part of it.
    return " ".join(said[: 2 if said and said[0].endswith(":") else 1])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" not in metafunc.fixturenames:
        return
    stores, absent = _stores()
    check, every = metafunc.function, bool(os.environ.get("VECTRIAL_EVERY_CASE"))
    parameters: list[Any] = []
    for store in stores:
        cases, named = cases_of(check, store, every=every), pytest.mark.store(store.name)
        parameters += [
            pytest.param(case, id=str(case), marks=[named, *_marks(case)]) for case in cases
        ]
        if not cases and OUTCOMES in os.environ:
            parameters.append(_skipped(store.name, str(why_not_run(check, telling_case(store)))))
    if check.__name__ == EVERY_STORE_HAS_IT:
        parameters += [_skipped(name, f"{name}: {reason}") for name, reason in absent.items()]
    metafunc.parametrize("case", parameters or [_NO_CASE], scope="session")


def _skipped(name: str, reason: str) -> Any:
    return pytest.param(
        None, id=name, marks=[pytest.mark.store(name), pytest.mark.skip(reason=reason)]
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out checks that no store declares. Group tests by case, and put those that change the
    rows of `loaded` after those that read them."""
    items[:] = [item for item in items if _parameter(item) is not _NO_CASE]
    places = [at for at, item in enumerate(items) if _case(item) is not None]
    order = list(dict.fromkeys(_case(items[at]) for at in places))

    def key(item: pytest.Item) -> tuple[int, bool]:
        return order.index(_case(item)), "changed" in getattr(item, "fixturenames", ())

    ordered = sorted((items[at] for at in places), key=key)
    for at, item in zip(places, ordered, strict=True):
        items[at] = item


def _case(item: pytest.Item) -> Case | None:
    """The case of a conformance test; None for other tests, and if its store is skipped."""
    case = _parameter(item)
    return case if isinstance(case, Case) else None


def _parameter(item: pytest.Item) -> object:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("case")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None]:
    """Stop a server after the last test of its store. A skipped test between two of them stops
    nothing."""
    yield
    case = None if nextitem is None else _case(nextitem)
    if case is not None or "case" not in getattr(nextitem, "fixturenames", ()):
        serving.stop_others(None if case is None else case.store)


@pytest.fixture(scope="session", autouse=True)
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Start a server when the first test needs it, and stop it after the last."""
    with serving.in_folder(tmp_path_factory.mktemp("servers")):
        yield


@pytest.fixture(scope="session")
def world(case: Case) -> World:
    """The rows that `loaded` holds."""
    return make_world(case.schema, case.capabilities.nulls, rows=ROWS, first_id=1_000, seed=0)


@pytest.fixture(scope="session")
def loaded(case: Case, world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A loaded store for tests to read; tests that change it, through `changed`, come last."""
    store = case.make(tmp_path_factory.mktemp("loaded"))
    load(store, case, world)
    yield store
    store.close()


@pytest.fixture
def empty(case: Case, tmp_path: Path) -> Iterator[Store]:
    """A store with nothing created yet."""
    store = case.make(folder(tmp_path, "store"))
    yield store
    store.close()
