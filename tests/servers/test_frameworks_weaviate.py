"""Collections that frameworks make in Weaviate are measured as the frameworks search them."""

from __future__ import annotations

from pathlib import Path

import pytest
from framework_collections import searched_as_by_its_application, vectors, written
from measured_collections import refused

from vectrial.model.existing import Existing
from vectrial.model.store import Address
from vectrial.stores import registry

pytestmark = [pytest.mark.server("weaviate"), pytest.mark.usefixtures("home")]
GIVEN = vectors()


@pytest.mark.parametrize(
    ("script", "vector", "rows", "misses"),
    [
        ("weaviate_by_langchain", "default", 600, False),
        ("weaviate_by_llamaindex", "default", 600, False),
        ("weaviate_named_vectors", "default", 600, True),
        ("weaviate_alias", "default", 600, False),
        ("weaviate_tenants", "default", 300, False),
    ],
)
def test_a_collection_is_searched_as_by_its_application(
    script: str, vector: str, rows: int, misses: bool, weaviate: Address, tmp_path: Path
) -> None:
    made = written(script, weaviate, tmp_path / "given", GIVEN)
    found, recall = searched_as_by_its_application("weaviate", weaviate, made, GIVEN)
    assert (found.vector, found.rows, found.index) == (vector, rows, "hnsw")
    assert (recall < 0.9) is misses
    if script == "weaviate_tenants":
        for where, words in (
            ("", "of which one is measured at a time"),
            ("tenant = third", "has no tenant 'third'"),
            ("shop = second", "names a tenant"),
        ):
            refused("weaviate", weaviate, Existing(made.collection, where=where), words)
    else:
        refused(
            "weaviate",
            weaviate,
            Existing(made.collection, where="tenant = second"),
            "has no tenants",
        )


def test_a_tenant_that_is_not_loaded_stays_so(weaviate: Address) -> None:
    from weaviate.classes.config import Configure
    from weaviate.classes.tenants import Tenant, TenantActivityStatus

    store = registry.load("weaviate")(Path(), weaviate)
    try:
        many = Configure.multi_tenancy(enabled=True)
        shops = store._client.collections.create("Closed", multi_tenancy_config=many)
        closed = Tenant(name="first", activity_status=TenantActivityStatus.INACTIVE)
        shops.tenants.create([closed])
        refused(
            "weaviate", weaviate, Existing("Closed", where="tenant = first"), "'first' is INACTIVE"
        )
        (status,) = [one.activity_status for one in shops.tenants.get().values()]
        assert status is TenantActivityStatus.INACTIVE
    finally:
        store.close()
