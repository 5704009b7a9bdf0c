"""Tables as applications leave them: what is measured is what their searches use."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from measured_collections import DIM, ROWS, VECTORS, K, measured

from vectrial.cli.run_suite import _filter_notes
from vectrial.model.errors import UserError
from vectrial.model.existing import Existing
from vectrial.model.metric import Metric
from vectrial.model.schema import Schema
from vectrial.model.store import Address
from vectrial.run.existing import ExistingCollection, describe, index_of, suite_of
from vectrial.stores import registry
from vectrial.stores.attached import keys_of, open_existing
from vectrial.stores.common import SearchRequest

pytestmark = pytest.mark.usefixtures("home")

TEXTS = ["[" + ",".join(f"{one:.6g}" for one in row) + "]" for row in VECTORS]
HNSW = "USING hnsw ({} vector_cosine_ops) WITH (m = 8, ef_construction = 32)"


@dataclass(frozen=True)
class Table:
    """Statements that make a table `t` of which rows are (id, VECTORS[id]); what is found of it.

    copy: the table that the rows are written to, with columns `id` and `embedding`.
    ids: as they are written. collection: what is measured, with filters on `columns`. vector: of
    it, what is searched.
    """

    before: Sequence[str]
    after: Sequence[str] = ()
    copy: str = "t (id, embedding)"
    ids: Callable[[int], Any] = int
    collection: str = "t"
    vector: str = "embedding"
    metric: Metric | None = None
    index: str = "hnsw"
    rows: int = ROWS
    notes: str = ""
    columns: Sequence[str] = ()
    found: Mapping[str, Any] = field(default_factory=dict)


def as_uuid(at: int) -> str:
    return str(uuid.UUID(int=at * 7919))


PLAIN = (f"CREATE TABLE t (id bigint PRIMARY KEY, embedding vector({DIM}))",)
NUMBER = "CREATE INDEX ON t " + HNSW.format("embedding")
TABLES: dict[str, Table] = {
    "plain": Table(PLAIN, (NUMBER,), found={"m": 8, "ef_construction": 32}),
    "no index": Table(PLAIN, metric=Metric.COSINE, index="flat"),
    "ivfflat": Table(
        PLAIN,
        ("CREATE INDEX ON t USING ivfflat (embedding vector_l2_ops) WITH (lists = 20)",),
        index="ivf_flat",
        found={"nlist": 20},
    ),
    "partitions, each with an index": Table(
        (
            f"CREATE TABLE t (id bigint, embedding vector({DIM})) PARTITION BY HASH (id)",
            *(
                f"CREATE TABLE t_{n} PARTITION OF t FOR VALUES WITH (MODULUS 3, REMAINDER {n})"
                for n in range(3)
            ),
        ),
        tuple(f"CREATE INDEX ON t_{n} {HNSW.format('embedding')}" for n in range(3)),
        found={"m": 8},
    ),
    "a view over a table": Table(
        PLAIN,
        (
            "ALTER TABLE t ADD gone bool NOT NULL DEFAULT false",
            "UPDATE t SET gone = (id % 10 = 0)",
            NUMBER,
            "CREATE VIEW live AS SELECT id, embedding FROM t WHERE NOT gone",
        ),
        collection="live",
        rows=ROWS - ROWS // 10,
        found={"m": 8},
    ),
    **{
        f"{kind} ids": Table(
            (f"CREATE TABLE t (id {kind} PRIMARY KEY, embedding vector({DIM}))",),
            (NUMBER,),
            ids=ids,
        )
        for kind, ids in (
            ("char(36)", as_uuid),
            ("uuid", as_uuid),
            ("varchar(20)", "doc-{}".format),
        )
    },
    "an index over halfvec": Table(
        PLAIN,
        (f"CREATE INDEX ON t USING hnsw ((embedding::halfvec({DIM})) halfvec_cosine_ops)",),
        vector=f"embedding::halfvec({DIM})",
        notes="the index is over",
    ),
    "a column of halfvec": Table(
        (f"CREATE TABLE t (id bigint PRIMARY KEY, embedding halfvec({DIM}))",),
        ("CREATE INDEX ON t USING hnsw (embedding halfvec_l2_ops)",),
    ),
    "a column without a length, its index with one": Table(
        ("CREATE TABLE t (id varchar PRIMARY KEY, embedding vector)",),
        (f"CREATE INDEX ON t {HNSW.format(f'(embedding::vector({DIM}))')}",),
        ids=lambda at: f"doc-{at}",
        vector=f"(embedding::vector({DIM}))",
        notes="the index is over",
    ),
    "an index of a part of the rows": Table(
        PLAIN,
        (f"CREATE INDEX ON t {HNSW.format('embedding')} WHERE id < 2000",),
        rows=2000,
        notes="the index has the rows with",
    ),
    "two indexes of which the server takes one": Table(
        PLAIN,
        (NUMBER, "CREATE INDEX ON t USING ivfflat (embedding vector_cosine_ops) WITH (lists = 20)"),
        index="ivf_flat",
        notes="planned over t_embedding_idx1",
    ),
    "names that need quotes": Table(
        (
            'CREATE SCHEMA "My shop"',
            f'CREATE TABLE "My shop"."T 1" ("The id" bigint PRIMARY KEY, "Vec" vector({DIM}))',
        ),
        ('CREATE INDEX ON "My shop"."T 1" ' + HNSW.format('"Vec"'),),
        copy='"My shop"."T 1" ("The id", "Vec")',
        collection="My shop.T 1",
    ),
    "rows without a vector": Table(
        PLAIN,
        (
            NUMBER,
            "INSERT INTO t (id) SELECT 1000000 + n FROM generate_series(1, 50) n",
            "ALTER TABLE t ADD page int; ALTER TABLE t ADD colour char(9)",
            "UPDATE t SET page = id % 40, colour = (ARRAY['red', 'blue'])[id % 3 + 1]",
        ),
        columns=("page", "colour"),
    ),
    "an index over a part of the vector": Table(
        PLAIN,
        ("CREATE INDEX ON t USING hnsw ((subvector(embedding, 1, 8)::vector(8)) vector_l2_ops)",),
        vector="subvector(embedding, 1, 8)::vector(8)",
        notes="subvector",
    ),
    "a view over an index of an expression": Table(
        PLAIN,
        (
            f"CREATE INDEX ON t USING hnsw ((embedding::halfvec({DIM})) halfvec_cosine_ops)",
            "CREATE VIEW live AS SELECT id, embedding FROM t WHERE id % 10 <> 0",
        ),
        collection="live",
        rows=ROWS - ROWS // 10,
        vector=f"embedding::halfvec({DIM})",
        notes="the index is over",
    ),
    "a view of the rows of an index": Table(
        PLAIN,
        (
            f"CREATE INDEX ON t {HNSW.format('embedding')} WHERE id < 1500",
            f"CREATE INDEX ON t {HNSW.format('embedding')} WHERE id >= 1500",
            "CREATE VIEW live AS SELECT id, embedding FROM t WHERE id < 1500",
        ),
        collection="live",
        rows=1500,
        notes="planned over t_embedding_idx",
    ),
    "a materialized view": Table(
        PLAIN,
        (
            "CREATE MATERIALIZED VIEW live AS SELECT id, embedding FROM t",
            f"CREATE INDEX ON live {HNSW.format('embedding')}",
        ),
        collection="live",
    ),
    "a graph of few links": Table(
        PLAIN,
        (
            "CREATE INDEX ON t USING hnsw (embedding vector_cosine_ops)"
            " WITH (m = 2, ef_construction = 4)",
        ),
        found={"m": 2},
    ),
    "ids below zero": Table(PLAIN, (NUMBER,), ids=lambda at: at - 7),
    "several vectors": Table(
        (f"CREATE TABLE t (id bigint PRIMARY KEY, embedding vector({DIM}), title vector(3))",),
        (NUMBER,),
    ),
}


@pytest.fixture
def database(postgres: Address) -> Iterator[Any]:
    from vectrial.stores.postgres.server import connect

    with connect(postgres) as db:
        db.autocommit = True
        db.execute("DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public")
        db.execute('DROP SCHEMA IF EXISTS "My shop" CASCADE; DROP SCHEMA IF EXISTS apart CASCADE')
        db.execute("CREATE EXTENSION vector")
        yield db
        db.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")


def make(db: Any, table: Table) -> None:
    for statement in table.before:
        db.execute(statement)
    with db.cursor().copy(f"COPY {table.copy} FROM STDIN") as into:
        for at, text in enumerate(TEXTS):
            into.write_row((table.ids(at), text))
    for statement in table.after:
        db.execute(statement)
    db.execute("ANALYZE")


@pytest.mark.server("pgvector")
@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_measured_as_its_searches_are(
    name: str, postgres: Address, database: Any
) -> None:
    table = TABLES[name]
    make(database, table)
    existing = Existing(
        table.collection,
        id="id" if table.copy.startswith("t ") else "",
        vector=table.vector if table.copy.startswith("t ") else "",
    )
    reading, found, dataset = measured("pgvector", postgres, existing, table.metric, table.columns)
    assert len(list(_filter_notes(reading, found))) == ("colour" in table.columns)
    assert (found.index, found.rows, dataset.rows) == (table.index, table.rows, table.rows)
    assert table.found.items() <= found.params.items()
    assert any(table.notes in note for note in (*found.notes, ""))


#: Statements after those of `PLAIN` and its rows, what is measured, and the words of the refusal.
REFUSED: dict[str, tuple[Sequence[str], str, str]] = {
    "a kind of graph that is not known": (
        (
            "CREATE ACCESS METHOD graph TYPE INDEX HANDLER hnswhandler",
            "CREATE OPERATOR CLASS near FOR TYPE vector USING graph AS OPERATOR 1 <=>"
            " (vector, vector) FOR ORDER BY float_ops, FUNCTION 1"
            " vector_negative_inner_product(vector, vector), FUNCTION 2 vector_norm(vector)",
            "CREATE INDEX ON t USING graph (embedding near)",
        ),
        "t",
        "an index of the kind graph",
    ),
    "bits of the vectors": (
        (
            f"CREATE INDEX ON t USING hnsw ((binary_quantize(embedding)::bit({DIM}))"
            " bit_hamming_ops)",
        ),
        "t",
        "binary_quantize",
    ),
    "indexes of two parts of the rows": (
        tuple(
            f"CREATE INDEX ON t {HNSW.format('embedding')} WHERE {part}"
            for part in ("id < 1500", "id >= 1500")
        ),
        "t",
        "id >= 1500",
    ),
    "vectors of several lengths": (
        (
            "CREATE TABLE models (id bigint PRIMARY KEY, embedding vector)",
            "INSERT INTO models VALUES (1, '[1,2]'), (2, '[1,2,3]')",
        ),
        "models",
        "vectors of several lengths",
    ),
    "ids that are there twice": (
        ("CREATE VIEW twice AS SELECT id / 2 AS id, embedding FROM t",),
        "twice",
        "tells no rows apart",
    ),
    "parts with indexes of different kinds": (
        (
            f"CREATE TABLE p (id bigint, embedding vector({DIM})) PARTITION BY RANGE (id)",
            "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1500)",
            "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (1500) TO (9999)",
            "INSERT INTO p SELECT * FROM t",
            "CREATE INDEX ON p1 USING ivfflat (embedding vector_cosine_ops) WITH (lists = 20)",
            f"CREATE INDEX ON p2 {HNSW.format('embedding')}",
        ),
        "p",
        "different kinds",
    ),
}


@pytest.mark.server("pgvector")
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_measured_is_refused_before_it_is_read(
    name: str, postgres: Address, database: Any
) -> None:
    after, collection, words = REFUSED[name]
    make(database, Table(PLAIN, after))
    existing = Existing(collection, id="id", vector="embedding")
    try:
        with pytest.raises(UserError, match=words):
            describe(ExistingCollection(registry.load("pgvector"), postgres, existing))
    finally:
        database.execute("DROP ACCESS METHOD IF EXISTS graph CASCADE")


@pytest.mark.server("pgvector")
def test_a_role_with_the_least_rights(postgres: Address, database: Any) -> None:
    """It may read two columns of one table, and is told so of another."""
    make(database, TABLES["plain"])
    database.execute("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN PASSWORD 'open'")
    database.execute("ALTER TABLE t ADD secret text; CREATE TABLE other (LIKE t)")
    database.execute(
        "GRANT USAGE ON SCHEMA public TO reader; GRANT SELECT (id, embedding) ON t TO reader"
    )
    least = replace(postgres, secrets={"user": "reader", "password": "open"})
    try:
        _, found, _ = measured("pgvector", least, Existing("t"))
        assert (found.index, dict(found.fields)) == ("hnsw", {})
        with pytest.raises(UserError, match="may read no column"):
            describe(
                ExistingCollection(registry.load("pgvector"), least, Existing("other", id="id"))
            )
    finally:
        database.execute("DROP OWNED BY reader; DROP ROLE reader")


@pytest.mark.server("pgvector")
def test_searches_have_the_settings_of_the_role_first(postgres: Address, database: Any) -> None:
    """Iterative scans and `enable_seqscan = off` were once put into the sessions that counted."""
    make(database, TABLES["plain"])
    database.execute("ALTER ROLE CURRENT_USER SET hnsw.ef_search = 13")
    try:
        reading, found, dataset = measured("pgvector", postgres, Existing("t"))
        assert any("hnsw.ef_search = 13" in note for note in found.notes)
        suite = suite_of(reading, found, dataset, k=K, repeats=1, lane=None)
        searches = [one.model_extra or {} for one in suite.experiments]
        assert [one["search"] == {} for one in searches] == [True, False]
        index, schema = index_of(reading.store, found), Schema(DIM, Metric.COSINE)
        store = open_existing(
            reading.store, Path(), postgres, Existing("t"), schema, index, keys_of(dataset)
        )
        kind = store.capabilities.indexes["hnsw"]
        with closing(store):
            own = store._search(SearchRequest(K, kind.search()))
            assert own.settings() == {}
            asked = kind.search.model_validate({"ef_search": 99})
            given = store._search(SearchRequest(K, asked))
            assert given.settings() == {"hnsw.ef_search": "99"}
            session = store._client.connection(own.settings())
            assert session.execute("SHOW hnsw.ef_search").fetchone()[0] == "13"
            assert session.execute("SHOW enable_seqscan").fetchone()[0] == "on"
    finally:
        database.execute("ALTER ROLE CURRENT_USER RESET hnsw.ef_search")


@pytest.mark.server("pgvector")
def test_an_extension_in_a_schema_of_its_own(postgres: Address, database: Any) -> None:
    database.execute(
        "DROP EXTENSION vector; CREATE SCHEMA apart; CREATE EXTENSION vector SCHEMA apart"
    )
    database.execute("SET search_path = public, apart")
    make(database, TABLES["plain"])
    measured("pgvector", postgres, Existing("t"))


@pytest.mark.server("pgvector")
def test_indexes_under_two_metrics_must_be_told_apart(postgres: Address, database: Any) -> None:
    make(database, TABLES["plain"])
    database.execute("CREATE INDEX ON t USING hnsw (embedding vector_l2_ops)")
    with pytest.raises(UserError, match="there are indexes for"):
        measured("pgvector", postgres, Existing("t"))
    _, found, _ = measured("pgvector", postgres, Existing("t"), Metric.L2)
    assert found.metric is Metric.L2
