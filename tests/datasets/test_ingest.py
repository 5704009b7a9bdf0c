from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import reader_layouts as layouts

from vectrial.datasets import ingest, library, truth
from vectrial.datasets.ingest import Import, import_file
from vectrial.datasets.readers import ReaderOptions, base, open_source
from vectrial.model.dataset import Truth
from vectrial.model.errors import DataError, UserError
from vectrial.model.filters import Eq
from vectrial.model.metric import Metric

RNG = np.random.default_rng(3)
X = RNG.standard_normal((200, 6)).astype(np.float32)
Q = RNG.standard_normal((9, 6)).astype(np.float32)


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl", "a.npy"])
def test_rows_and_queries_together_are_the_file(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "BLOCK_BYTES", 7 * 24)  # many blocks, some without a query
    file = tmp_path / name
    if name == "a.npy":
        np.save(file, X)
    else:
        write = layouts.parquet if name == "a.parquet" else layouts.jsonl
        write(file, X, number=[i * 2 for i in range(200)])
    found = import_file(Import(file, metric=Metric.L2, queries=20, seed=4))
    assert (found.name, found.rows, len(found.queries)) == ("a", 180, 20)
    np.testing.assert_array_equal(found.vectors, X[found.ids])
    held_out = np.setdiff1d(np.arange(200), found.ids)
    np.testing.assert_array_equal(found.queries, X[held_out])
    if found.metadata is not None:
        np.testing.assert_array_equal(found.metadata.column("number").to_numpy(), found.ids * 2)
    assert "20 of 200 rows held out as queries, seed 4" in found.provenance.notes
    assert found.facts["duplicates"] == {
        "rows": 0, "groups": 0, "queries": 0, "repeated_queries": 0,
    }  # fmt: skip
    library.verify("a")


def test_the_seed_decides_which_rows_are_held_out(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)

    def prints(seed: int) -> str:
        wanted = Import(
            tmp_path / "a.npy", metric=Metric.L2, queries=20, seed=seed, replace_existing=True
        )
        return import_file(wanted).fingerprint

    assert prints(1) == prints(1) != prints(2)


def test_held_out_queries_that_are_also_rows_are_reported(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.repeat(X[:100], 2, axis=0))
    found = import_file(Import(tmp_path / "a.npy", metric=Metric.COSINE, queries=30))
    alone = np.setdiff1d(np.arange(200), found.ids)
    pairs = 30 - len(np.unique(alone // 2))  # both of a pair may have been drawn
    assert found.facts["duplicates"]["queries"] == 30 - 2 * pairs
    assert found.facts["duplicates"]["rows"] == 100 - 30 + pairs


def test_what_the_file_brings_is_used(tmp_path: Path) -> None:
    file = layouts.hdf5(tmp_path / "glove-6-angular.hdf5", X, Q, distance="angular")
    found = import_file(Import(file))
    assert (found.metric, found.rows, found.name) == (Metric.COSINE, 200, "glove-6-angular")
    np.testing.assert_array_equal(found.queries, Q)
    # They were found by Euclidean distance: not those of the cosine.
    assert found.facts["published_neighbours"]["recall"] < 1
    part = import_file(Import(file, name="part", queries=4))
    np.testing.assert_array_equal(part.queries, Q[:4])


def test_filters_stay_with_their_queries(tmp_path: Path) -> None:
    folder = layouts.qdrant(tmp_path / "set", X, Q)
    found = import_file(Import(folder, metric=Metric.COSINE, queries=3))
    assert found.filters == (None, None, Eq("colour", "red"))
    assert found.metadata is not None
    assert found.metadata.schema.names == ["colour", "n"]


def test_queries_from_another_file(tmp_path: Path) -> None:
    base = layouts.xbin(tmp_path / "base.fbin", X, "<f4")
    query = layouts.xbin(tmp_path / "query.fbin", Q, "<f4")
    found = import_file(Import(base, metric=Metric.L2, queries=query))
    assert found.rows == 200
    np.testing.assert_array_equal(found.queries, Q)
    wrong = layouts.xbin(tmp_path / "wrong.fbin", Q[:, :4], "<f4")
    with pytest.raises(DataError, match="queries have 4 components, the vectors 6"):
        import_file(Import(base, "other", Metric.L2, queries=wrong))


def test_published_neighbours_are_compared(tmp_path: Path) -> None:
    file = layouts.hdf5(tmp_path / "x-euclidean.hdf5", X, Q)
    facts = import_file(Import(file)).facts
    assert facts["published_neighbours"] == {"k": 3, "queries": 9, "recall": 1.0}


def test_the_truth_is_there_already(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "a.npy", X)
    found = import_file(Import(tmp_path / "a.npy", metric=Metric.L2, queries=5))
    monkeypatch.setattr(truth, "_computed", None)
    known = truth.truth_of(found, ingest.TRUTH_K)
    far = np.sqrt(((found.queries[:, None].astype(float) - found.vectors[None]) ** 2).sum(2))
    np.testing.assert_array_equal(known.ids, found.ids[np.argsort(far, axis=1)[:, :10]])


def with_rows(change: dict[int, Any]) -> Any:
    x = X.copy()
    for row, value in change.items():
        x[row] = value
    return x


@pytest.mark.parametrize(
    ("x", "wanted", "message"),
    [
        (X, {"metric": None}, "does not say how.*--metric cosine"),
        (X, {"queries": 200}, "200 queries cannot be held out of 200 rows.*at most 199"),
        (X, {"queries": 0}, "--queries is at least 1"),
        (X[:1], {}, "1 queries cannot be held out of 1 rows"),
        (X, {"name": "a/b"}, "cannot be a dataset's name"),
        (with_rows({150: np.nan}), {}, r"a\.npy, row 150: component 0 is nan"),
        (with_rows({150: 0}), {"metric": Metric.COSINE}, r"a\.npy, row 150: the vector is zero"),
    ],
)
def test_imports_that_cannot_be(
    tmp_path: Path, x: Any, wanted: dict[str, Any], message: str
) -> None:
    np.save(tmp_path / "a.npy", x)
    with pytest.raises(UserError, match=message):
        import_file(Import(tmp_path / "a.npy", **{"metric": Metric.L2, **wanted}))
    assert library.names() == ()


def test_duplicate_ids_name_the_rows_of_the_file(tmp_path: Path) -> None:
    ids = np.arange(200)
    ids[180] = 4
    file = layouts.parquet(tmp_path / "a.parquet", X, id=ids)
    with pytest.raises(DataError, match=r"a\.parquet: id 4 occurs at row 4 and at row 180"):
        import_file(Import(file, metric=Metric.L2, queries=50))
    assert library.names() == ()


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("step", ["inspect", "truth_of"])
def test_nothing_remains_of_an_import_that_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: type[BaseException]
) -> None:
    """Nor is what it was to replace gone, however far it came."""
    np.save(tmp_path / "a.npy", X)

    def fails(*given: Any, **named: Any) -> None:
        raise error

    wanted = Import(tmp_path / "a.npy", metric=Metric.L2)
    with monkeypatch.context() as patched:
        patched.setattr(ingest, step, fails)
        with pytest.raises(error):
            import_file(wanted)
    home = tmp_path / "home"
    assert library.names() == ()
    assert [path for path in (home / "datasets").iterdir() if path.name != "truth"] == []

    first = import_file(wanted)
    again = Import(tmp_path / "a.npy", metric=Metric.COSINE, replace_existing=True)
    with monkeypatch.context() as patched:
        patched.setattr(ingest, step, fails)
        with pytest.raises(error):
            import_file(again)
    there = library.load("a")
    assert (there.fingerprint, there.facts) == (first.fingerprint, first.facts)
    assert there.facts["norms"]
    library.verify("a")
    assert import_file(again).metric is Metric.COSINE


def test_too_little_disk_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "a.npy", X)
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr(ingest.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(UserError, match=r"GB are needed.*VECTRIAL_HOME"):
        import_file(Import(tmp_path / "a.npy", metric=Metric.L2))


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_a_file_of_repeats_is_refused_unless_its_rows_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(base, "_SMALL_BYTES", 1 << 20)
    path = tmp_path / f"a{suffix}"
    rows = np.tile(X[:1], (100_000, 1))
    if suffix == ".npz":
        np.savez_compressed(path, rows)
    else:
        pq.write_table(pa.table({"v": rows.tolist()}), path)
    with pytest.raises(DataError, match=r"MB hold .* GB of vectors.*--rows N"):
        import_file(Import(path, metric=Metric.L2))
    order = Import(path, metric=Metric.L2, options=ReaderOptions(rows=50))
    found = import_file(order)
    assert found.rows + len(found.queries) == 50


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("my.parquet", "my"),
        ("a/My set.tar.gz", "My-set"),
        ("glove-100-angular.hdf5", "glove-100-angular"),
        ("v1.5 folder", "v1.5-folder"),
        ("ünïcode.npy", "n-code"),
        ("/", "imported"),
    ],
)
def test_names_from_paths(path: str, name: str, tmp_path: Path) -> None:
    assert ingest.name_of(tmp_path / path) == name


def test_agreement_with_published_neighbours() -> None:
    truth = Truth(
        k=3,
        ids=np.array([[5, 1, 2], [7, 8, -1]]),
        distances=np.array([[0.1, 0.2, 0.3], [0.5, 0.6, np.inf]]),
        available=np.array([3, 2]),
        accept_offsets=np.array([0, 4, 6]),
        accept_ids=np.array([1, 2, 5, 9, 7, 8]),
    )
    # 9 ties with 2; one of the second query's two is wrong; -1 is none.
    published = np.array([[5, 1, 9, 4], [7, 3, -1, -1], [0, 0, 0, 0]])
    agreement = partial(ingest.agreement, truth=truth, metric=Metric.L2, dim=8)
    assert agreement(published) == {"k": 3, "queries": 2, "recall": 4 / 5}
    assert agreement(published[:, :1])["recall"] == 1.0
    assert agreement(np.full((2, 3), -1))["recall"] is None


def test_peek_reads_no_more_than_asked(tmp_path: Path) -> None:
    file = layouts.parquet(tmp_path / "a.parquet", X, id=np.arange(200) * 3, n=np.arange(200))
    with open_source(file, ReaderOptions()) as source:
        seen = ingest.peek(source, None, 50)
    assert seen.rows == 50
    np.testing.assert_array_equal(seen.ids, np.arange(50) * 3)
    assert seen.metadata is not None
    assert seen.metadata.num_rows == 50
