"""Tables that frameworks make in PostgreSQL are measured as the frameworks search them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_calls import call
from framework_collections import (
    Collection,
    as_measured_first,
    check_native_lane,
    overlap,
    searched_as_by_its_application,
    vectors,
    written,
    written_by_spring,
)
from measured_collections import K, faults_of, measured, opened

from vectrial.model.capabilities import Returning
from vectrial.model.errors import UserError
from vectrial.model.existing import Existing
from vectrial.model.metric import Metric
from vectrial.model.store import Address
from vectrial.results.reader import RunReader
from vectrial.run.existing import ExistingCollection, describe, name_of, read_rows
from vectrial.stores import registry
from vectrial.stores.attached import without_own_ids

pytestmark = pytest.mark.usefixtures("home")

#: So many that the server searches its graphs and does not read the tables instead.
GIVEN = vectors(3_000)
STORE = registry.load("pgvector")


@pytest.fixture
def database(postgres: Address) -> Iterator[Any]:
    from pgvector.psycopg import register_vector

    from vectrial.stores.postgres.server import connect

    with connect(postgres) as db:
        db.execute("DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public")
        db.execute("CREATE EXTENSION vector")
        register_vector(db)
        yield db


@pytest.mark.server("pgvector")
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("pgvector_by_langchain", ("length", "index")),
        # A tenth of the rows of the one index: its answers are short.
        ("pgvector_by_langchain", ("length", "index", "second")),
        ("pgvector_by_langchain_v2", ()),
        ("pgvector_by_llamaindex", ()),
        ("pgvector_by_haystack", ()),
        ("pgvector_by_django", ()),
        ("pgvector_by_txtai", ()),
    ],
)
def test_a_table_of_a_framework(
    script: str,
    words: tuple[str, ...],
    postgres: Address,
    database: Any,
    tmp_path: Path,
) -> None:
    made = written(script, postgres, tmp_path / "given", GIVEN, *words)
    found, recall = searched_as_by_its_application("pgvector", postgres, made, GIVEN)
    assert found.index == "hnsw"
    assert recall < 0.95, "an exact search would have found the same"


@pytest.mark.server("pgvector")
def test_an_index_that_the_application_does_not_use(
    postgres: Address, database: Any, tmp_path: Path
) -> None:
    """LangChain's column has no length, an index needs a cast to one, and LangChain does not cast.

    The index was measured, which finds 84 % of the rows that LangChain finds.
    """
    made = written("pgvector_by_langchain", postgres, tmp_path / "given", GIVEN, "index")
    condition = Existing(made.collection, where=made.options["where"])
    with pytest.raises(UserError, match="searches of embedding itself do not use"):
        describe(ExistingCollection(STORE, postgres, condition))
    reading, found, dataset = measured(
        "pgvector", postgres, replace(condition, vector="embedding::vector(16)")
    )
    assert found.index == "hnsw"
    assert overlap(as_measured_first(reading, found, dataset, GIVEN), made.answers) < 0.95
    found, recall = searched_as_by_its_application("pgvector", postgres, made, GIVEN, Metric.COSINE)
    assert (found.index, recall) == ("flat", 1.0)


@pytest.mark.server("pgvector")
def test_a_table_of_spring(postgres: Address, database: Any, tmp_path: Path) -> None:
    made = written_by_spring(postgres, tmp_path / "given", GIVEN)
    found, _ = searched_as_by_its_application("pgvector", postgres, made, GIVEN)
    assert found.index == "hnsw"


# -- Tables of applications ------------------------------------------------------------------------

HNSW = "USING hnsw (embedding vector_cosine_ops) WITH (m = 4, ef_construction = 16)"
#: As the migration of a Rails application makes it with the gem neighbor.
RAILS = (
    "CREATE TABLE items (id bigserial PRIMARY KEY, text varchar, deleted_at timestamp(6),"
    " n int GENERATED ALWAYS AS (id % 7) STORED, embedding vector(16),"
    " created_at timestamp(6) NOT NULL DEFAULT now())"
)
#: As that gem asks for the nearest rows.
NEAREST = (
    "SELECT items.text, items.embedding <=> %(vector)s AS neighbor_distance FROM items"
    " WHERE {} ORDER BY items.embedding <=> %(vector)s LIMIT 10"
)


def items(db: Any, after: str) -> None:
    """The table of a Rails application with the rows of GIVEN, of which every fifth is deleted."""
    db.execute(RAILS)
    with db.cursor().copy("COPY items (text, embedding) FROM STDIN WITH (FORMAT binary)") as into:
        into.set_types(["varchar", "vector"])
        for at, row in enumerate(GIVEN.rows):
            into.write_row((f"row {at}", row))
    db.execute("UPDATE items SET deleted_at = now() WHERE id % 5 = 0")
    db.execute("UPDATE items SET text = text")  # so that rows are where updates leave them
    db.execute(after)
    db.execute("ANALYZE")


def asked(db: Any, condition: str, **options: Any) -> Collection:
    """What an application finds in that table."""
    from pgvector import Vector

    text = NEAREST.format(condition)
    answers = [
        [
            int(found[0].removeprefix("row "))
            for found in db.execute(text, {"vector": Vector(query)}).fetchall()
        ]
        for query in GIVEN.queries
    ]
    return Collection("items", options, answers, "neighbor's SQL")


@pytest.mark.server("pgvector")
def test_a_table_of_rails(postgres: Address, database: Any) -> None:
    items(database, f"CREATE INDEX ON items {HNSW}")
    made = asked(database, "items.embedding IS NOT NULL")
    _, recall = searched_as_by_its_application("pgvector", postgres, made, GIVEN)
    assert recall < 0.95


@pytest.mark.server("pgvector")
@pytest.mark.parametrize("part", ["", " WHERE deleted_at IS NULL"])
def test_rows_that_are_marked_as_deleted(part: str, postgres: Address, database: Any) -> None:
    """Without the condition, deleted rows were rows, and a fifth of the answers."""
    items(database, f"CREATE INDEX ON items {HNSW}{part}")
    live = "deleted_at IS NULL"
    made = asked(database, live, where=live)
    found, recall = searched_as_by_its_application("pgvector", postgres, made, GIVEN)
    assert (found.index, found.rows) == ("hnsw", len(GIVEN.rows) * 4 // 5)
    assert recall < 0.95
    if part:  # the only condition that the index has is found
        found, _ = searched_as_by_its_application(
            "pgvector", postgres, asked(database, live), GIVEN
        )
        assert found.rows == len(GIVEN.rows) * 4 // 5


@pytest.mark.server("pgvector")
def test_an_index_for_each_part_of_the_rows(postgres: Address, database: Any) -> None:
    """Which one an application uses, its condition says."""
    parts = ("id <= 2000", "id > 2000")
    items(database, "; ".join(f"CREATE INDEX ON items {HNSW} WHERE {part}" for part in parts))
    with pytest.raises(UserError, match="there are indexes of"):
        describe(ExistingCollection(STORE, postgres, Existing("items")))
    made = asked(database, parts[0], where=parts[0])
    found, _ = searched_as_by_its_application("pgvector", postgres, made, GIVEN)
    assert (found.index, found.rows) == ("hnsw", 2_000)


@pytest.mark.server("pgvector")
def test_a_small_table_is_read_by_the_server_itself(postgres: Address, database: Any) -> None:
    items(database, f"DELETE FROM items WHERE id > 60; CREATE INDEX ON items {HNSW}")
    database.execute("VACUUM FULL ANALYZE items")
    found = describe(ExistingCollection(STORE, postgres, Existing("items"), queries=5))
    assert (found.index, found.search) == ("hnsw", {"seqscan": False})
    assert any("the table is read instead" in note for note in found.notes)


@pytest.mark.server("pgvector")
@pytest.mark.parametrize(
    ("where", "words"),
    [("deleted_at IS", "syntax error"), ("gone", "column"), ("true; DROP TABLE items", "syntax")],
)
def test_a_condition_that_is_none(where: str, words: str, postgres: Address, database: Any) -> None:
    items(database, f"CREATE INDEX ON items {HNSW}")
    with pytest.raises(UserError, match=words):
        describe(ExistingCollection(STORE, postgres, Existing("items", where=where)))
    assert database.execute("SELECT count(*) FROM items").fetchone()[0] == len(GIVEN.rows)


@pytest.mark.server("pgvector")
@pytest.mark.parametrize(
    ("index", "vector"),
    [
        (HNSW, "embedding"),
        (
            "USING hnsw ((embedding::halfvec(16)) halfvec_cosine_ops) WITH (m = 4)",
            "embedding::halfvec(16)",
        ),
    ],
)
def test_both_lanes_have_the_condition(
    index: str, vector: str, postgres: Address, database: Any
) -> None:
    """With filters beside it."""
    items(database, f"CREATE INDEX ON items {index}")
    existing = Existing("items", vector=vector, where="deleted_at IS NULL OR n = 6")
    reading, found, dataset = measured("pgvector", postgres, existing, columns=("n",))
    assert found.index == "hnsw"
    (kept,) = database.execute(f"SELECT count(*) FROM items WHERE {existing.where}").fetchone()
    assert dataset.rows == kept
    with closing(opened(reading, found, dataset)) as store:
        params = STORE.capabilities.indexes[found.index].search()
        check_native_lane(store, params, dataset.queries)
        search = store.searcher_returning(Returning.VECTORS, K, params)
        assert len(search(dataset.queries[0])[0]) == K


@pytest.mark.server("pgvector")
def test_the_options_of_the_command(
    postgres: Address, database: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What the application's searches have is in each trial, and a suite says it as well."""
    items(database, f"CREATE INDEX ON items {HNSW}")
    monkeypatch.setenv("VECTRIAL_POSTGRES_PASSWORD", postgres.secrets["password"])
    address = f"{postgres.host}:{postgres.ports['postgres']}"
    monkeypatch.setenv("VECTRIAL_POSTGRES_ADDRESS", address)
    words = ("run", "--existing", "pgvector", "--collection", "items", "--queries", 20)
    live = ("--where", "deleted_at IS NULL", "--search", "ef_search=12")
    dry = ("--repeats", 1, "--dry-run", "--format", "jsonl")
    done = call(*words, *live, *dry)
    assert done.code == 0, done.err
    assert "2,400 rows" in done.err
    assert "deleted_at IS NULL" in done.err
    trials = [json.loads(line) for line in done.out.splitlines()]
    assert {one["kind"] for one in trials} == {"trial"}
    assert "12" in json.dumps(trials[0])
    for wrong, said in (("ef_search", "is no parameter"), ("ef=12", "ef")):
        done = call(*words, "--search", wrong, *dry)
        assert done.code == 2
        assert said in done.err
        assert "Traceback" not in done.err
    name = name_of(ExistingCollection(STORE, postgres, Existing("items", where=live[1])))
    suite = tmp_path / "mine.toml"
    suite.write_text(
        f"""
name = "mine"
repeats = 1
[[datasets]]
name = "{name}"
[[stores]]
store = "pgvector"
index = "hnsw"
params = {{ m = 4, ef_construction = 16 }}
lane = ["native", "sdk"]
existing = {{ collection = "items", where = "{live[1]}" }}
[[experiments]]
experiment = "search"
search = {{ ef_search = 12 }}
min_s = 0.1
"""
    )
    done = call("run", suite, "--out", tmp_path / "runs", "--no-report")
    assert done.code == 0, done.err
    with RunReader(Path(done.out.splitlines()[-1])) as reader:
        measured_ones = reader.rows("select lane, status, reason from trial")
        checks = reader.rows("select distinct name, passed from gate")
    assert {one["lane"] for one in measured_ones} == {"native", "sdk"}
    for one in measured_ones:
        assert one["status"] == "ok" or "client-bound" in one["reason"], one
    assert {row["passed"] for row in checks} == {True, None}


@pytest.mark.server("pgvector")
def test_a_role_that_may_read_one_table(postgres: Address, database: Any, tmp_path: Path) -> None:
    """It makes nothing, and sees no statistics of others."""
    made = written("pgvector_by_langchain_v2", postgres, tmp_path / "given", GIVEN)
    database.execute("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN PASSWORD 'open'")
    database.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
    database.execute("GRANT USAGE ON SCHEMA public TO reader; CREATE TABLE items (id int)")
    database.execute("GRANT SELECT ON vectorstore TO reader")
    least = replace(postgres, secrets={"user": "reader", "password": "open"})
    try:
        found, _ = searched_as_by_its_application("pgvector", least, made, GIVEN)
        assert found.index == "hnsw"
        with pytest.raises(UserError, match="may read no column"):
            describe(ExistingCollection(STORE, least, Existing("items")))
    finally:
        database.execute("DROP OWNED BY reader; DROP ROLE reader")


@pytest.mark.server("pgvector")
def test_rows_that_arrive_while_the_table_is_read(postgres: Address, database: Any) -> None:
    """What is read is the table at one moment. Rows that came since then are found by the gate."""
    items(database, f"CREATE INDEX ON items {HNSW}")
    reading = ExistingCollection(STORE, postgres, Existing("items"), queries=40)
    found = describe(reading)
    more = "INSERT INTO items (text, embedding) SELECT 'new', embedding FROM items LIMIT 500"
    arrived = False

    def progress(done: float, total: float, words: str) -> None:
        nonlocal arrived
        if not arrived:
            database.execute(more)
            arrived = True

    dataset = read_rows(reading, found, progress)
    assert arrived
    assert dataset.rows == found.rows == len(GIVEN.rows)
    assert len(np.unique(dataset.ids)) == dataset.rows
    with closing(opened(reading, found, dataset)) as store:
        faults = faults_of(store, without_own_ids(dataset))
    assert any("3,500" in fault or "3500" in fault for fault in faults), faults
