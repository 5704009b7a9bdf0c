"""What AnnLite's finds spend on counting.

Before every find, by vector or by condition, AnnLite 0.5.10 counts the rows of its SQLite table,
`SELECT count(_id)`, which reads them all. Beside the median time of a find stands that of the
count alone, in the same table, at two sizes. It runs in the environment that AnnLite lives in.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

import harness
from vectrial.util import environments
from vectrial_reproduce.stores.docarray.documents import ENVIRONMENT

SIZES = (10_000, 50_000)
CALLS = 200
ROUNDS = 5
#: Prints, for each round, the median milliseconds of each kind of call.
INSIDE = """
import json, sys, time
import numpy as np
from loguru import logger
logger.remove()
from annlite import AnnLite
from docarray import Document, DocumentArray

rows, calls, rounds, folder = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
vectors = np.random.default_rng(7).random((rows, 128), dtype=np.float32)
ann = AnnLite(128, metric="euclidean", max_connection=16, ef_construction=64,
              columns={"f0": int}, data_path=folder)
for at in range(0, rows, 1000):
    ann.index(DocumentArray([
        Document(id=str(row), embedding=vectors[row], tags={"f0": row})
        for row in range(at, at + 1000)
    ]))
table = ann._cell_tables[0]
ann.vec_index(0).ef_search = 32
works = {
    "count": lambda at: table._conn.execute(f"SELECT count(_id) from {table.name};").fetchone(),
    "condition": lambda at: ann.filter({"f0": {"$eq": at}}, limit=10, include_metadata=False),
    "vector": lambda at: ann.search_numpy(vectors[at : at + 1], limit=10),
}
for _ in range(rounds):
    found = {}
    for name, work in works.items():
        each = []
        for at in range(calls):
            began = time.perf_counter()
            work(at)
            each.append(1e3 * (time.perf_counter() - began))
        found[name] = float(np.median(each))
    print(json.dumps(found))
"""


def measured(rows: int) -> dict[str, list[float]]:
    """Milliseconds of each kind of call, one value for each round."""
    python = environments.ensure(ENVIRONMENT)
    with tempfile.TemporaryDirectory() as folder:
        arguments = [str(rows), str(CALLS), str(ROUNDS), folder]
        done = subprocess.run(
            [str(python), "-c", INSIDE, *arguments], stdout=subprocess.PIPE, text=True, check=True
        )
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    return {name: [one[name] for one in rounds] for name in rounds[0]}


def main() -> int:
    """Measure, print, and append to the file that was asked for."""
    bench = harness.start(__doc__)
    for rows in SIZES:
        found = measured(rows)
        bench.add(
            *(
                harness.compare(
                    f"find by {kind}, {rows:,} rows",
                    "ms",
                    found[kind],
                    found["count"],
                    baseline="counting the rows",
                )
                for kind in ("condition", "vector")
            )
        )
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
