# /// script
# requires-python = "==3.11.*"
# dependencies = ["numpy==2.4.6", "weaviate-client==4.24.1"]
# ///
"""A collection of two tenants by Weaviate's client; the application searches the second."""

from client_of_weaviate import connected
from common import K, finish, given
from weaviate.classes.config import Configure
from weaviate.classes.data import DataObject

rows = given()
with connected(rows) as client:
    shops = client.collections.create(
        "Shops",
        vector_config=Configure.Vectors.self_provided(),
        multi_tenancy_config=Configure.multi_tenancy(enabled=True, auto_tenant_creation=True),
    )
    own = {"first": range(0, len(rows.rows), 2), "second": range(1, len(rows.rows), 2)}
    for tenant, numbers in own.items():
        shops.with_tenant(tenant).data.insert_many(
            [DataObject(properties={"n": at}, vector=rows.vector(f"row {at}")) for at in numbers]
        )
    search = shops.with_tenant("second").query.near_vector
    answers = [
        [int(found.properties["n"]) for found in search(rows.vector(text), limit=K).objects]
        for text in rows.questions
    ]
finish("weaviate-client", "Shops", answers, {"where": "tenant = second"})
