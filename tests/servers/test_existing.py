"""A collection that somebody else made is read, searched and measured as it is, in every store that
declares it, and afterwards the server has what it had before."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from command_calls import call
from foreign_collections import (
    DIM,
    MAKERS,
    PRICES,
    ROWS,
    VECTORS,
    Foreign,
)
from quick_servers import quick_servers
from readiness import ready
from tls_front import make_certificate, tls_front

from vectrial._engine import Judge
from vectrial.datasets.truth import truth_of
from vectrial.engine.client import Requests, closed, drive, record_or_raise, tls
from vectrial.gate import ExpectedRows, Subject, run_gate
from vectrial.model.context import fields_of
from vectrial.model.dataset import Dataset
from vectrial.model.errors import Unsupported, UserError, VectrialError
from vectrial.model.existing import Existing
from vectrial.model.filters import Range
from vectrial.model.metric import Metric
from vectrial.model.schema import Schema
from vectrial.model.store import Address, NativeSearch, Store
from vectrial.results.reader import RunReader
from vectrial.run.existing import (
    ExistingCollection,
    describe,
    index_of,
    name_of,
    read_rows,
    suite_of,
)
from vectrial.servers.base import NotReady
from vectrial.servers.provide import make_server, recipe_of
from vectrial.stores import registry
from vectrial.stores.attached import keys_of, open_existing, without_own_ids
from vectrial.stores.common.arrow import ids_of
from vectrial.testing.server_programs import require_startable

K = 10


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.server(name)) for name in MAKERS],
)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Address]]:
    """A store's name and the address of a server of its own."""
    recipe = recipe_of(registry.load(request.param))
    assert recipe is not None
    require_startable(recipe)
    folder = tmp_path_factory.mktemp(request.param)
    with quick_servers(), make_server(recipe, folder, allow_exposed=True) as server:
        yield request.param, server.address


@pytest.fixture(scope="module", params=[False, True], ids=["integers", "text"])
def made(request: pytest.FixtureRequest, served: tuple[str, Address]) -> Foreign:
    """A collection as its user made it."""
    name, address = served
    make, integers = MAKERS[name]
    if not (request.param or integers):
        pytest.skip(f"{name} knows rows by UUIDs alone")
    return make(address, text=request.param)


@pytest.fixture
def foreign(
    served: tuple[str, Address], made: Foreign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[ExistingCollection, Foreign]:
    """A collection, and how it is read."""
    name, address = served
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    columns = [made.column] if made.column else []
    return ExistingCollection(
        registry.load(name), address, made.existing, columns, queries=60
    ), made


def opened(reading: ExistingCollection, dataset: Dataset) -> tuple[Store, Dataset]:
    """The store, attached to the collection, and the dataset as its rows."""
    found, keys = describe(reading), keys_of(dataset)
    rows = without_own_ids(dataset)
    schema = Schema(DIM, Metric.COSINE, fields_of(rows))
    index = index_of(reading.store, found)
    store = open_existing(
        reading.store, Path(), reading.address, reading.existing, schema, index, keys
    )  # fmt: skip
    return store, rows


def test_is_measured_as_it_is(foreign: tuple[ExistingCollection, Foreign]) -> None:
    reading, made = foreign
    before = made.dump()
    found = describe(reading)
    assert (found.rows, found.dim, found.metric) == (ROWS, DIM, Metric.COSINE)
    assert (found.index, found.text_ids) == (made.index, made.text)
    assert made.params.items() <= found.params.items()
    dataset = read_rows(reading, found)
    own = dataset.ids.tolist() if dataset.own_ids is None else dataset.own_ids.to_pylist()
    place = {str(key): at for at, key in enumerate(made.keys)}
    order = [place[str(key)] for key in own]
    assert sorted(order) == list(range(ROWS))
    expected = VECTORS[order]
    cosines = np.sum(dataset.vectors * expected, axis=1) / (
        np.linalg.norm(dataset.vectors, axis=1) * np.linalg.norm(expected, axis=1)
    )
    assert cosines.min() > 1 - 1e-5
    if made.column:
        assert dataset.metadata is not None
        assert dataset.metadata.column(made.column).to_pylist() == [PRICES[at] for at in order]
    assert len(dataset.queries) == 60

    store, rows = opened(reading, dataset)
    with closing(store):
        truth = truth_of(rows, K)
        judge = Judge(truth.k, truth.accept_offsets, truth.accept_ids, truth.available)
        subject = Subject(
            store=store,
            make=lambda _: pytest.fail("nothing is made beside"),
            schema=Schema(DIM, Metric.COSINE, fields_of(rows)),
            index=index_of(reading.store, found),
            rows=ExpectedRows(rows.ids, rows.vectors, rows.metadata),
            queries=rows.queries,
            judge=judge,
            k=K,
            read_only=True,
        )
        results = {one.name: one for one in run_gate(subject, Path("never-made"))}
        assert [one for one in results.values() if one.passed is False] == []
        for name in ("row_count", "ids_round_trip", "scores_agree", "recall", "all_rows_kept"):
            assert results[name].passed, name
        assert results["deleted_rows_gone"].passed is None
        assert results["filters_hold"].passed is (True if made.column else None)
        _ask_natively(store, subject, rows, made)
        _refuses_writes(store)
    assert made.dump() == before


def _ask_natively(store: Store, subject: Subject, rows: Dataset, made: Foreign) -> None:
    """The native lane finds the same rows as the client, with a filter and without."""
    if made.text:
        return
    where = Range(made.column, lt=2.0) if made.column else None
    for condition in {None, where}:
        native = store.native_search(K, subject.nearly_exact_params(), condition)
        requests = Requests(
            "search",
            vectors=rows.queries,
            k=K,
            filters=[native.filter] if native.filter else [],
            options=native.options,
            keep=True,
            once=True,
        )
        outcome = drive(native.target, [requests], [closed(1, count=len(rows.queries))])
        answers = record_or_raise(outcome, "searches")["answers"]
        assert answers is not None
        which, ids, _ = answers
        search = store.searcher(K, subject.nearly_exact_params(), condition)
        for query, got in zip(which.tolist(), ids, strict=True):
            assert set(got.tolist()) == set(search(rows.queries[query])[0].tolist())


def _refuses_writes(store: Store) -> None:
    batch = next(iter(store.scan(10)))
    for write in (
        lambda: store.insert(batch),
        lambda: store.upsert(batch),
        lambda: store.delete(ids_of(batch)),
        store.drop,
        store.flush,
        store.build,
        store.wait_indexed,
        store.native_rows,
    ):
        with pytest.raises(Unsupported, match="only read"):
            write()
    store.refresh()


def test_wrong_names_say_what_there_is(served: tuple[str, Address]) -> None:
    name, address = served
    reading = ExistingCollection(registry.load(name), address, Existing("nothing_of_the_kind"))
    with pytest.raises(UserError, match="has no"):
        describe(reading)


def test_another_index_than_the_suite_says(foreign: tuple[ExistingCollection, Foreign]) -> None:
    reading, made = foreign
    found = describe(reading)
    ((name, value), *_) = made.params.items()
    wrong = replace(found, params={**found.params, name: value + 1})
    schema = Schema(DIM, Metric.COSINE)
    with pytest.raises(UserError, match=f"{name} = {value}"):
        open_existing(
            reading.store, Path(), reading.address, made.existing, schema,
            index_of(reading.store, wrong), keys_of(_nothing()),
        )  # fmt: skip


def test_the_suite_asks_for_what_can_be_measured(
    foreign: tuple[ExistingCollection, Foreign],
) -> None:
    reading, made = foreign
    found = describe(reading)
    dataset = read_rows(reading, found)
    suite = suite_of(reading, found, dataset, k=K, repeats=1, lane=None)
    (store,) = suite.stores
    assert store.lane == (["sdk"] if made.text else ["native", "sdk"])
    assert store.index == made.index
    assert store.existing is not None
    assert store.existing.collection == made.existing.collection


def test_a_run_leaves_no_trace(
    foreign: tuple[ExistingCollection, Foreign], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The commands, from reading the rows to the results; of one store, since it takes a while."""
    reading, made = foreign
    if reading.store.name != "pgvector":
        pytest.skip("the run is the same for each store")
    address, password = reading.address, reading.address.secrets["password"]
    monkeypatch.setenv("VECTRIAL_POSTGRES_PASSWORD", password)
    monkeypatch.delenv("VECTRIAL_POSTGRES_ADDRESS", raising=False)
    monkeypatch.setenv("VECTRIAL_POSTGRES_ADDRESS", "nowhere:postgres=1")
    before = made.dump()
    words = ("run", "--existing", "pgvector", "--collection", made.existing.collection)
    where = ("--address", f"{address.host}:{address.ports['postgres']}", "--queries", 50)
    done = call(*words, *where, "--dry-run", "--format", "jsonl")
    assert done.code == 0, done.err
    assert {json.loads(line)["kind"] for line in done.out.splitlines()} == {"trial"}

    suite = tmp_path / "mine.toml"
    suite.write_text(
        f"""
name = "mine"
repeats = 1
[[datasets]]
name = "{name_of(reading)}"
[[stores]]
store = "pgvector"
index = "hnsw"
params = {{ m = 10, ef_construction = 60 }}
lane = ["native", "sdk"]
existing = {{ collection = "{made.existing.collection}" }}
[[experiments]]
experiment = "search"
search = {{ ef_search = 40 }}
min_s = 0.1
[[experiments]]
experiment = "crud"
"""
    )
    done = call("run", suite, "--out", tmp_path / "runs", "--no-report")
    assert done.code == 0, done.err
    folder = Path(done.out.splitlines()[-1])
    with RunReader(folder) as reader:
        trials = reader.rows("select experiment, lane, status, reason, key from trial")
        checks = reader.rows("select distinct name, passed from gate")
    found = {(row["experiment"], row["lane"]): row for row in trials}
    measured = {"sdk"} if made.text else {"native", "sdk"}
    for lane in measured:
        assert found["search", lane]["status"] in ("ok", "invalid"), found
        assert "client-bound" in (found["search", lane]["reason"] or "client-bound")
    assert all(row["status"] == "skipped" for row in trials if row["experiment"] == "crud")
    assert {row["passed"] for row in checks} == {True, None}
    assert not any(password in path.read_text(errors="ignore") for path in folder.rglob("*.log"))
    assert made.dump() == before


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def encrypted(served: tuple[str, Address], certificate: tuple[Path, Path]) -> Iterator[Address]:
    """The server's address under TLS, as of a managed service: none of these servers was built
    with it or is started so. Drivers that trust its certificate say so in the environment, which
    is put back."""
    name, address = served
    with ExitStack() as fronts:
        fronts.enter_context(patch.dict(os.environ))
        ports = {
            port: fronts.enter_context(tls_front(*certificate, number, postgres=name == "pgvector"))
            for port, number in address.ports.items()
        }
        yield replace(address, ports=ports, tls=True, ca=certificate[0])


def test_both_lanes_under_tls(
    foreign: tuple[ExistingCollection, Foreign], encrypted: Address, tmp_path: Path
) -> None:
    reading, made = foreign
    over = replace(reading, address=encrypted)
    recipe = recipe_of(reading.store)
    assert recipe is not None
    ready(recipe, encrypted)
    found = describe(over)
    dataset = read_rows(over, found)
    store, rows = opened(over, dataset)
    with closing(store):
        kind = store.capabilities.indexes[found.index]
        ids, _ = store.searcher(K, kind.search())(rows.queries[0])
        assert len(ids) == K
        target = store.native_search(K, kind.search()).target
        assert target["tls"] is not None
        requests = _requests(store.native_search(K, kind.search()), rows)
        outcome = drive(target, [requests], [closed(2, count=20)])
        if not made.text:
            record_or_raise(outcome, "searches")
            assert outcome["classes"][0]["recorder"].samples() == 20


@pytest.mark.filterwarnings("ignore")
def test_an_unknown_certificate_is_refused(
    foreign: tuple[ExistingCollection, Foreign], encrypted: Address, tmp_path: Path
) -> None:
    reading, _ = foreign
    other, _ = make_certificate(tmp_path)
    strange = replace(encrypted, ca=other)
    recipe = recipe_of(reading.store)
    assert recipe is not None
    with pytest.raises((NotReady, VectrialError)):
        recipe.ready(strange)
    plain = reading.store(Path(), replace(encrypted, read_only=True))
    with closing(plain):
        found = plain.describe(reading.existing)
        schema = Schema(DIM, Metric.COSINE)
        named = replace(reading.existing, id=found.id, vector=found.vector)
        plain.attach(named, schema, index_of(reading.store, found), keys_of(_nothing()))
        kind = plain.capabilities.indexes[found.index]
        native = plain.native_search(K, kind.search())
        target = {**native.target, "tls": tls(strange.host, other)}
        requests = Requests("search", vectors=VECTORS[:5], k=K, options=native.options)
        (record,) = drive(target, [requests], [closed(1, count=2)], timeout_s=60.0)["classes"]
        kinds = {kind for kind, _, _ in record["recorder"].errors()}
        assert kinds
        assert all("tls" in one for one in kinds), kinds


def _requests(native: NativeSearch, rows: Dataset) -> Requests:
    return Requests("search", vectors=rows.queries, k=K, options=native.options)


def _nothing() -> Dataset:
    from vectrial.model.dataset import Provenance

    empty = np.empty((0, DIM), np.float32)
    ids = np.empty(0, np.int64)
    return Dataset("none", Metric.COSINE, empty, ids, empty, "", Provenance("", "", ""))
