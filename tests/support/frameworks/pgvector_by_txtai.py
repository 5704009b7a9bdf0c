# /// script
# requires-python = "==3.11.*"
# dependencies = [
#   "txtai==9.14.0", "pgvector==0.5.1", "sqlalchemy", "psycopg2-binary", "numpy",
# ]
# [tool.uv]
# override-dependencies = [
#   "torch ; sys_platform == 'never'",
#   "transformers ; sys_platform == 'never'",
#   "faiss-cpu ; sys_platform == 'never'",
# ]
# ///
"""The table of txtai's index of vectors in PostgreSQL, without txtai's models. It normalises
vectors beforehand, and searches by inner product."""

import numpy as np
from common import K, finish, given
from txtai.ann import ANNFactory

GIVEN = given()
S = GIVEN.secrets
URL = (
    f"postgresql+psycopg2://{S.get('user', 'postgres')}:{S['password']}@{GIVEN.host}:"
    f"{GIVEN.ports['postgres']}/{S.get('database', 'postgres')}"
)


def normalised(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


ann = ANNFactory.create(
    {
        "backend": "pgvector",
        "dimensions": GIVEN.dim,
        "pgvector": {"url": URL, "table": "vectors", "m": 4, "efconstruction": 16},
    }
)
ann.index(normalised(GIVEN.rows))
ann.save("")
answers = [[int(at) for at, _ in found] for found in ann.search(normalised(GIVEN.queries), K)]
finish("txtai", "vectors", answers)
