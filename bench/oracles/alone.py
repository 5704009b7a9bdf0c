"""A library with its rows and one searcher, as an application would hold them.

    python alone.py LIBRARY ROWS.npy QUERIES.npy EF_CONSTRUCTION EF SEARCHES

It adds the rows in batches of a thousand, searches, and ends with 0.
"""

from __future__ import annotations

import sys

import numpy as np

BATCH = 1000


def hnswlib_searches(rows: np.ndarray, queries: np.ndarray, effort: int, ef: int) -> None:
    import hnswlib

    index = hnswlib.Index(space="l2", dim=rows.shape[1])
    index.init_index(max_elements=len(rows), M=16, ef_construction=effort)
    for at in range(0, len(rows), BATCH):
        index.add_items(np.array(rows[at : at + BATCH]), np.arange(at, min(at + BATCH, len(rows))))
    index.set_ef(ef)
    index.set_num_threads(1)
    for query in queries:
        index.knn_query(query, 10)


def faiss_searches(rows: np.ndarray, queries: np.ndarray, effort: int, ef: int) -> None:
    import faiss

    index = faiss.IndexHNSWFlat(rows.shape[1], 16)
    index.hnsw.efConstruction = effort
    for at in range(0, len(rows), BATCH):
        index.add(np.array(rows[at : at + BATCH]))
    index.hnsw.efSearch = ef
    faiss.omp_set_num_threads(1)
    for query in queries:
        index.search(query[None], 10)


def sqlite_searches(rows: np.ndarray, queries: np.ndarray, effort: int, ef: int) -> None:
    import sqlite3
    import tempfile

    import sqlite_vec

    with tempfile.TemporaryDirectory() as place:
        db = sqlite3.connect(f"{place}/rows.db")
        db.enable_load_extension(True)
        sqlite_vec.load(db)
        db.execute(f"create virtual table rows using vec0(v float[{rows.shape[1]}])")
        for at in range(0, len(rows), BATCH):
            batch = np.array(rows[at : at + BATCH])
            numbered = [(at + i, row.tobytes()) for i, row in enumerate(batch)]
            db.executemany("insert into rows(rowid, v) values (?, ?)", numbered)
            db.commit()
        ask = "select rowid from rows where v match ? and k = 10 order by distance"
        for query in queries:
            db.execute(ask, (query.tobytes(),)).fetchall()


SEARCHES = {"hnswlib": hnswlib_searches, "faiss": faiss_searches, "sqlite-vec": sqlite_searches}


if __name__ == "__main__":
    library, rows, queries, effort, ef, count = sys.argv[1:]
    asked = np.resize(np.load(queries), (int(count), np.load(queries, mmap_mode="r").shape[1]))
    SEARCHES[library](np.load(rows, mmap_mode="r"), asked, int(effort), int(ef))
