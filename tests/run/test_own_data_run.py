"""The README's way for own data: import, run, report, compare, bundle, and run again."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from in_process import InProcess
from small_suite import EASY, Inside

from vectrial.run import runner

ROWS, DIM = 300, 8
STORES = ("memory", "flat"), ("hnswlib", "hnsw"), ("sqlite", "flat")
SUITE = (
    'name = "mine"\nrepeats = 1\n[[datasets]]\nname = "mine"\n'
    + "".join(f'[[stores]]\nstore = "{store}"\nindex = "{index}"\n' for store, index in STORES)
    + """
[[experiments]]
experiment = "filtered"
selectivities = [0.5]
predicates = ["column"]
payload_index = ["on"]
checks = 10
min_s = 0.05
max_s = 2
warmup_queries = 5
[[experiments]]
experiment = "crud"
samples = 20
"""
    + EASY
)
ALONE = (
    """
name = "alone"
repeats = 1
[[datasets]]
name = "alone"
[[stores]]
store = "chroma"
[[experiments]]
experiment = "search"
clients = [1]
min_s = 0.05
max_s = 1
warmup_queries = 5
"""
    + EASY
)


def write(file: Path) -> None:
    """Text ids in `id`, the vectors in another column, and metadata of unlucky names."""
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(10, DIM))
    vectors = centres[rng.integers(0, 10, ROWS)] + 0.3 * rng.normal(size=(ROWS, DIM))
    columns = {
        "id": [f"doc-{at}" for at in range(ROWS)],
        "embedding": pa.array(vectors.tolist(), pa.list_(pa.float32())),
        "vector": [at % 7 for at in range(ROWS)],
        "score": [None if at % 5 == 0 else at / 2 for at in range(ROWS)],
        "select": [("en", "de", None)[at % 3] for at in range(ROWS)],
        "a.b": [at % 3 == 0 for at in range(ROWS)],
    }
    pq.write_table(pa.table(columns), file)


@pytest.mark.slow
def test_own_data_go_the_whole_way(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "my.parquet")
    (tmp_path / "mine.toml").write_text(SUITE)
    as_the_readme_says = "--vectors embedding --id id --metric cosine --queries 40 --name mine"
    made = inside("data", "import", "my.parquet", *as_the_readme_says.split())
    assert made.code == 0, made.err
    assert "own ids 'id' are kept as metadata" in " ".join(made.out.split())
    where = '{"eq": {"vector": 3}}'
    truth = inside("data", "truth", "mine", "-k", "3", "--filter", where, "--format", "jsonl")
    first = json.loads(truth.out.splitlines()[0])
    assert all(int(own.removeprefix("doc-")) % 7 == 3 for own in first["ids"])

    with monkeypatch.context() as patch:
        patch.setattr(runner, "JobRunner", InProcess)
        run = inside("run", "mine.toml")
    assert run.code == 0, run.err
    folder = Path(run.out.splitlines()[-1])
    with duckdb.connect(str(folder / "run.duckdb"), read_only=True) as db:
        wrong = db.execute("select store, status, reason from trial where status <> 'ok'")
        assert wrong.fetchall() == []
    assert (folder / "report" / "report.html").is_file()
    compared = inside(
        "compare", str(folder), "--store", "memory", "--store", "sqlite", "--format", "jsonl"
    )
    assert compared.code == 0, compared.err

    sealed = inside("bundle", str(folder), "--out", "mine.vectrial.tar.gz")
    assert sealed.code == 0, sealed.err
    again = inside("run", "--from", "mine.vectrial.tar.gz", "--store", "memory", "--no-report")
    assert again.code == 0, again.err


@pytest.mark.usefixtures("in_process")
def test_vectors_alone_are_measured_in_chroma(inside: Inside, tmp_path: Path) -> None:
    """Its client has None for the metadata of a row without any: it was called wrong for that."""
    rng = np.random.default_rng(2)
    np.save(tmp_path / "alone.npy", rng.normal(size=(ROWS, DIM)).astype(np.float32))
    (tmp_path / "alone.toml").write_text(ALONE)
    made = inside("data", "import", "alone.npy", "--metric", "cosine", "--queries", "20")
    assert made.code == 0, made.err
    run = inside("run", "alone.toml", "--no-report")
    assert run.code == 0, run.err
    folder = Path(run.out.splitlines()[-1])
    with duckdb.connect(str(folder / "run.duckdb"), read_only=True) as db:
        trials = db.execute("select store, status, reason from trial").fetchall()
    assert trials == [("chroma", "ok", None)]
