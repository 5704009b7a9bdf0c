"""Tables that frameworks make in PostgreSQL are measured as the frameworks search them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from framework_collections import searched_as_by_its_application, vectors, written
from measured_collections import served

from vectrial.model.store import Address

GIVEN = vectors(3_000)


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    yield from served("pgvector", tmp_path_factory.mktemp("postgres"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))


@pytest.fixture
def database(postgres: Address) -> Iterator[Any]:
    from vectrial.stores.postgres.server import connect

    with connect(postgres) as db:
        db.execute("DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public")
        db.execute("CREATE EXTENSION vector")
        yield db


@pytest.mark.server("pgvector")
@pytest.mark.parametrize(
    ("script", "words", "index"),
    [
        ("pgvector_by_langchain", ("length", "index"), "hnsw"),
        ("pgvector_by_langchain", ("length",), "flat"),
        ("pgvector_by_langchain_v2", (), "hnsw"),
        ("pgvector_by_llamaindex", (), "hnsw"),
        ("pgvector_by_haystack", (), "hnsw"),
        ("pgvector_by_django", (), "hnsw"),
    ],
)
def test_a_table_of_a_framework(
    script: str,
    words: tuple[str, ...],
    index: str,
    postgres: Address,
    database: Any,
    tmp_path: Path,
) -> None:
    made = written(script, postgres, tmp_path / "given", GIVEN, *words)
    found, recall = searched_as_by_its_application("pgvector", postgres, made, GIVEN)
    print(made.version, found, recall)
    assert found.index == index
