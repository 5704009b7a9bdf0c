"""The index of a suite that names none."""

from __future__ import annotations

import pytest

from vectrial.model.errors import UserError
from vectrial.plan.checks import with_indexes
from vectrial.stores import registry
from vectrial.suite.model import parse_suite

SUITE = """
name = "t"
[[datasets]]
name = "clustered-8-1k"
[[stores]]
store = "{store}"
{index}
[[experiments]]
experiment = "search"
"""


def index_of(store: str, index: str = "") -> str | None:
    suite = parse_suite(SUITE.format(store=store, index=index), "t.toml")
    return with_indexes(suite, "t.toml", registry.load).stores[0].index


@pytest.mark.parametrize(
    ("store", "index"),
    [("memory", "flat"), ("hnswlib", "hnsw"), ("pgvector", "hnsw"), ("milvus", "hnsw")],
)
def test_the_only_kind_or_the_declared_one(store: str, index: str) -> None:
    assert index_of(store) == index


def test_what_a_suite_names_goes_first() -> None:
    assert index_of("pgvector", 'index = "flat"') == "flat"


def test_without_a_default_the_kinds_are_listed() -> None:
    with pytest.raises(UserError, match=r"stores\[0\]\.index: .*one of flat, hnsw, ivf_pq"):
        index_of("faiss")


def test_defaults_are_kinds_of_their_stores() -> None:
    for name in registry.names():
        known = registry.load(name).capabilities
        assert known.default_index is None or known.default_index in known.indexes, name
