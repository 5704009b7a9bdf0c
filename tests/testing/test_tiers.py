"""Which cases of a store the conformance suite has: the fast tier every library and no server, the
rest what can change a check's outcome."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vectrial.model.store import Store
from vectrial.stores import registry
from vectrial.stores.faiss import FaissStore
from vectrial.stores.memory import MemoryStore
from vectrial.stores.postgres.store import PgVector
from vectrial.testing.conformance import test_reads, test_wire, test_writes
from vectrial.testing.conformance.cases import all_cases, cases_of, telling_case
from vectrial.testing.conformance.plugin import _marks, _reason

STORES = [registry.load(name) for name in registry.names()]


@pytest.mark.parametrize("store", STORES, ids=lambda one: one.name)
def test_a_library_has_one_fast_case_and_a_server_none(store: type[Store]) -> None:
    fast = [case for case in all_cases(store) if not _marks(case)]
    assert len(fast) == (1 if store.server is None else 0)


def test_a_check_runs_on_what_can_change_its_outcome() -> None:
    every = list(all_cases(FaissStore))
    kinds = FaissStore.capabilities.indexes
    assert len(every) > len(kinds) > 1
    assert cases_of(test_reads.test_a_row_finds_itself, FaissStore, every=False) == every
    by_index = cases_of(test_writes.test_k_beyond_the_rows, FaissStore, every=False)
    assert [case.index for case in by_index] == list(kinds)
    assert cases_of(test_reads.test_count, FaissStore, every=False) == [telling_case(FaissStore)]
    assert cases_of(test_reads.test_count, FaissStore, every=True) == every


def test_of_a_server_indexes_and_metrics_are_not_crossed() -> None:
    every = list(all_cases(PgVector))
    some = cases_of(test_reads.test_a_row_finds_itself, PgVector, every=False)
    assert {case.index for case in some} == {case.index for case in every}
    assert {case.metric for case in some} == {case.metric for case in every}
    assert len(some) < len(every)
    assert cases_of(test_reads.test_a_row_finds_itself, PgVector, every=True) == every
    duplicates = test_writes.test_duplicates_are_refused
    assert len(cases_of(duplicates, PgVector, every=False)) == 1


@pytest.mark.parametrize("store", [FaissStore, PgVector])
def test_one_case_has_no_metadata(store: type[Store]) -> None:
    for every in (False, True):
        *others, bare = cases_of(test_reads.test_get, store, every=every)
        assert bare == replace(telling_case(store), bare=True)
        assert bare.schema.columns == {}
        assert all(case.schema.columns for case in others)
    assert not any(case.bare for case in cases_of(test_reads.test_find, store, every=True))


def test_what_is_not_declared_has_no_case() -> None:
    assert cases_of(test_wire.test_both_lanes_have_the_same_answers, MemoryStore, every=True) == []


def test_a_store_that_cannot_run_here_is_skipped_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not once for each check; where it must run, its tests are there, and fail."""
    monkeypatch.setenv("VECTRIAL_STORES", "memory,qdrant")
    monkeypatch.delenv("VECTRIAL_QDRANT_BIN", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _collected().count("[qdrant") == 1
    monkeypatch.setenv("VECTRIAL_MUST_RUN", "qdrant")
    assert _collected().count("[qdrant-") > 20


def _collected() -> str:
    suite = Path(__file__).parents[1] / "stores" / "conformance"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", suite],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("AssertionError: 3 rows are gone\nassert not 3", "AssertionError: 3 rows are gone"),
        ("AssertionError: \n\nArrays are not equal", "Arrays are not equal"),
        ("TypeError: supported:\n  1. add(x: int)\n", "TypeError: supported: 1. add(x: int)"),
    ],
)
def test_the_reason_of_a_failed_check_is_its_first_line_that_says_something(
    message: str, reason: str
) -> None:
    crash = SimpleNamespace(message=message)
    report: Any = SimpleNamespace(passed=False, longrepr=SimpleNamespace(reprcrash=crash))
    assert _reason(report) == reason
