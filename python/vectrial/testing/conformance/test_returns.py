"""Data that a search returns with each row: if requested, the server's answers grow by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np
import pytest

from vectrial.engine.client import Requests, closed, drive
from vectrial.model.capabilities import Returning
from vectrial.model.lane import Lane, lanes_of
from vectrial.model.store import Store
from vectrial.testing.conformance import serving
from vectrial.testing.conformance.cases import (
    a_server,
    bare_too,
    needs,
)
from vectrial.testing.conformance.counting import Received, count_received
from vectrial.testing.conformance.world import DIM, ROWS, Case, K, World, queries

#: Makes of a case, a store and what to return the function that sends searches.
Ask = Callable[[Case, Store, Returning], Callable[[np.ndarray], None]]
#: Of what k vectors take as float32: the least that must come.
SHARE = 0.9
#: Of a whole row with what a client's library puts around it: the most that may come.
WHOLE_BYTES = 4_000


@bare_too
def test_answers_are_the_same_whatever_comes_with_them(case: Case, loaded: Store) -> None:
    plain = loaded.searcher(K, case.high_recall)
    # What a search does not bring by itself is read by id.
    for returning in Returning if case.capabilities.get else case.capabilities.returns:
        more = loaded.searcher_returning(returning, K, case.high_recall)
        for query in queries(count=5):
            for one, other in zip(plain(query), more(query), strict=True):
                np.testing.assert_array_equal(one, other, err_msg=str(returning))


def finds_numbers(case: Case) -> str | None:
    finds = "eq int" in case.filters(case.capabilities.find)
    return None if finds else f"{case.store.name} finds no numbers by condition"


@pytest.fixture
def store_behind_relay(case: Case, loaded: Store) -> Iterator[tuple[Store, Received]]:
    """The loaded collection, opened through a relay that counts bytes."""
    with count_received(serving.server(case.store).address) as (address, received):
        store = case.store(loaded.location, address)
        with closing(store):
            store.open(case.schema, case.build)
            yield store, received


@needs(a_server)
@bare_too
def test_what_is_asked_for_comes(case: Case, store_behind_relay: tuple[Store, Received]) -> None:
    store, received = store_behind_relay
    lanes = {Lane.NATIVE: by_engine, Lane.SDK: by_client}
    for lane in lanes_of(case.store):
        _check_what_comes(case, store, received, lanes[lane])


def _check_what_comes(case: Case, store: Store, received: Received, ask: Ask) -> None:
    vectors = queries()
    came: dict[Returning, int] = {}
    for returning in sorted(case.capabilities.returns):
        run = ask(case, store, returning)
        run(vectors[:1])
        before = received.count
        run(vectors)
        came[returning] = received.count - before
    if Returning.VECTORS in came:
        assert came[Returning.VECTORS] >= came[Returning.IDS] + SHARE * len(vectors) * K * DIM * 4
    if Returning.METADATA in came and case.schema.fields:
        assert came[Returning.METADATA] > came[Returning.IDS]


@needs(a_server, finds_numbers)
def test_a_condition_is_answered_by_the_server(
    case: Case, store_behind_relay: tuple[Store, Received], world: World
) -> None:
    """Trap 001-3: the client fetched all rows and filtered them itself."""
    store, received = store_behind_relay
    where = case.filters(case.capabilities.find)["eq int"]
    kept = world.ids[world.matching(where)]
    store.find(where, ROWS)  # what a first request brings once
    before = received.count
    found = store.find(where, ROWS)
    assert sorted(found.tolist()) == sorted(kept.tolist())
    # Less than an id and a value of every row.
    each = WHOLE_BYTES if case.capabilities.find_brings_rows else 250
    assert received.count - before < 8 * ROWS + each * len(kept)


def by_client(case: Case, store: Store, returning: Returning) -> Callable[[np.ndarray], None]:
    search = store.searcher_returning(returning, K, case.high_recall)

    def run(vectors: np.ndarray) -> None:
        for query in vectors:
            assert len(search(query)[0]) == K

    return run


def by_engine(case: Case, store: Store, returning: Returning) -> Callable[[np.ndarray], None]:
    native = store.native_search(K, case.high_recall, None, returning)

    def run(vectors: np.ndarray) -> None:
        filters = [native.filter] if native.filter is not None else []
        requests = Requests("search", vectors=vectors, k=K, filters=filters, options=native.options)
        outcome = drive(native.target, [requests], [closed(1, count=len(vectors))])
        recorder = outcome["classes"][0]["recorder"]
        assert recorder.errors() == []
        assert recorder.samples() == len(vectors)

    return run
