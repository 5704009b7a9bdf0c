# /// script
# requires-python = "==3.11.*"
# dependencies = ["django==5.2.19", "pgvector==0.5.1", "psycopg[binary]", "numpy"]
# ///
"""A table of a Django model with a field and an index of pgvector's Django package; of its rows
some are not published."""

import django
from common import K, finish, given
from django.conf import settings

GIVEN = given()
S = GIVEN.secrets
settings.configure(
    INSTALLED_APPS=[],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": S.get("database", "postgres"),
            "USER": S.get("user", "postgres"),
            "PASSWORD": S["password"],
            "HOST": GIVEN.host,
            "PORT": GIVEN.ports["postgres"],
        }
    },
)
django.setup()

from django.db import connection, models  # noqa: E402
from pgvector.django import CosineDistance, HnswIndex, VectorField  # noqa: E402


class Item(models.Model):
    text = models.TextField()
    n = models.IntegerField()
    embedding = VectorField(dimensions=GIVEN.dim, null=True)

    class Meta:
        app_label = "shop"
        indexes = (
            HnswIndex(
                name="item_embedding",
                fields=["embedding"],
                m=4,
                ef_construction=16,
                opclasses=["vector_cosine_ops"],
            ),
        )


with connection.schema_editor() as editor:
    editor.create_model(Item)
Item.objects.bulk_create(
    Item(text=text, n=meta["n"], embedding=GIVEN.vector(text))
    for text, meta in zip(GIVEN.texts, GIVEN.metadatas, strict=True)
)
Item.objects.create(text="a draft", n=0)
with connection.cursor() as cursor:
    cursor.execute("ANALYZE")
answers = []
for question in GIVEN.questions:
    near = Item.objects.order_by(CosineDistance("embedding", GIVEN.vector(question)))[:K]
    answers.append([int(item.text.removeprefix("row ")) for item in near])
finish("django", "shop_item", answers)
