import datetime
import io
import json
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import reader_layouts as layouts
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from vectrial.datasets.readers import ReaderOptions, VectorSource, open_source
from vectrial.model.errors import DataError, Unsupported, UserError
from vectrial.model.filters import Eq, In, Or, Range
from vectrial.model.metric import Metric

RNG = np.random.default_rng(1)
X = RNG.standard_normal((30, 6)).astype(np.float32)
Q = RNG.standard_normal((5, 6)).astype(np.float32)
SMALL = RNG.integers(0, 100, (30, 6))


def vectors(source: VectorSource, rows: int = 7) -> Any:
    with source:
        return np.concatenate([block.vectors for block in source.blocks(rows)])


def metadata(source: VectorSource, rows: int = 7) -> pa.Table:
    with source:
        tables = [block.metadata for block in source.blocks(rows)]
        assert None not in tables
        return pa.concat_tables(tables)  # type: ignore[arg-type]


# --- what was written is read ------------------------------------------------------------------


@pytest.mark.parametrize("name", layouts.FILES)
@settings(max_examples=25)
@given(data=st.data(), rows=st.integers(1, 20), dim=st.integers(1, 9), step=st.integers(1, 25))
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    data: st.DataObject,
    rows: int,
    dim: int,
    step: int,
) -> None:
    x = data.draw(hnp.arrays(np.int64, (rows, dim), elements=st.integers(0, 127)))
    file = layouts.FILES[name](tmp_path_factory.mktemp("round") / name, x)
    source = open_source(file)
    assert (source.rows, source.dim) == x.shape
    found = vectors(source, step)
    assert found.dtype == np.float32
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize("name", ["a.fvecs", "a.fbin", "a.npy", "a.npz", "a.parquet", "a.hdf5"])
@settings(max_examples=25)
@given(x=hnp.arrays(np.float32, (4, 3), elements=st.floats(-(2.0**61), 2.0**61, width=32)))
def test_round_trip_of_any_float(
    tmp_path_factory: pytest.TempPathFactory, name: str, x: Any
) -> None:
    file = layouts.FILES[name](tmp_path_factory.mktemp("round") / name, x)
    np.testing.assert_array_equal(vectors(open_source(file)), x)


@pytest.mark.parametrize("name", layouts.FILES)
def test_the_first_rows_only(tmp_path: Path, name: str) -> None:
    source = open_source(layouts.FILES[name](tmp_path / name, SMALL), ReaderOptions(rows=11))
    assert source.rows == 11
    np.testing.assert_array_equal(vectors(source), SMALL[:11])


@pytest.mark.parametrize("name", ["a.hdf5", "a.npy", "a.parquet"])
def test_the_content_tells_the_format_when_the_name_does_not(tmp_path: Path, name: str) -> None:
    layouts.FILES[name](tmp_path / name, SMALL).rename(tmp_path / "download")
    np.testing.assert_array_equal(vectors(open_source(tmp_path / "download")), SMALL)


def test_fortran_order(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.asfortranarray(X))
    np.savez(tmp_path / "a.npz", np.asfortranarray(X))
    for name in ("a.npy", "a.npz"):
        np.testing.assert_array_equal(vectors(open_source(tmp_path / name)), X)
        np.testing.assert_array_equal(
            vectors(open_source(tmp_path / name, ReaderOptions(rows=3))), X[:3]
        )


@pytest.mark.parametrize("dtype", ["<f2", "<f8", ">f4", "u1", "<i8"])
def test_other_component_types(tmp_path: Path, dtype: str) -> None:
    np.save(tmp_path / "a.npy", SMALL.astype(dtype))
    np.testing.assert_array_equal(vectors(open_source(tmp_path / "a.npy")), SMALL)


# --- ann-benchmarks HDF5 -----------------------------------------------------------------------


def test_hdf5_queries_neighbors_and_metric(tmp_path: Path) -> None:
    file = layouts.hdf5(tmp_path / "a.hdf5", X, Q, distance="angular", type="dense")
    with open_source(file) as source:
        assert source.metric is Metric.COSINE
        np.testing.assert_array_equal(source.queries, Q)
        assert source.neighbors is not None
        assert source.neighbors.shape == (5, 3)


def test_neighbours_of_all_rows_are_not_those_of_the_first(tmp_path: Path) -> None:
    files = [
        layouts.hdf5(tmp_path / "a.hdf5", X, Q),
        layouts.vectordbbench(tmp_path / "vdbb", X, Q),
        layouts.qdrant(tmp_path / "qdrant", X, Q),
    ]
    for file in files:
        with open_source(file) as source:
            assert source.neighbors is not None
        with open_source(file, ReaderOptions(rows=10)) as source:
            assert source.neighbors is None
            assert source.queries is not None


@pytest.mark.parametrize(
    ("name", "metric"),
    [("glove-6-angular.hdf5", Metric.COSINE), ("x-euclidean.h5", Metric.L2), ("x.hdf5", None)],
)
def test_hdf5_without_attributes(tmp_path: Path, name: str, metric: Metric | None) -> None:
    with open_source(layouts.hdf5(tmp_path / name, X, Q)) as source:
        assert source.metric is metric


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"distance": "jaccard", "type": "sparse"}, "sparse vectors under jaccard"),
        ({"distance": "hamming", "point_type": "bit"}, "bit vectors under hamming"),
        ({"distance": "chebyshev"}, "distance 'chebyshev' is not known"),
    ],
)
def test_hdf5_of_other_kinds(tmp_path: Path, attributes: dict[str, str], message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        open_source(layouts.hdf5(tmp_path / "a.hdf5", X, Q, **attributes))


def test_hdf5_that_leads_elsewhere(tmp_path: Path) -> None:
    layouts.hdf5(tmp_path / "other.hdf5", X)
    with h5py.File(tmp_path / "link.hdf5", "w") as file:
        file["train"] = h5py.ExternalLink("other.hdf5", "train")
    with h5py.File(tmp_path / "external.hdf5", "w") as file:
        file.create_dataset("train", (9, 4), "f4", external=[("/etc/hostname", 0, 144)])
    with h5py.File(tmp_path / "virtual.hdf5", "w") as file:
        layout = h5py.VirtualLayout((30, 6), "f4")
        layout[:] = h5py.VirtualSource(tmp_path / "other.hdf5", "train", (30, 6))
        file.create_virtual_dataset("train", layout)
    for name in ("link", "external", "virtual"):
        with pytest.raises(DataError, match="another file"):
            open_source(tmp_path / f"{name}.hdf5")


def test_hdf5_that_claims_much(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.create_dataset("train", (1 << 40, 128), "f4", chunks=(1024, 128), compression=1)
    with pytest.raises(DataError, match=r"claims \d+ bytes, and 0 are stored"):
        open_source(tmp_path / "a.hdf5")
    with h5py.File(tmp_path / "b.hdf5", "w") as file:
        file.create_dataset("train", (1 << 31, 128), "f4")
    with pytest.raises(DataError, match="are stored"):
        open_source(tmp_path / "b.hdf5")


# --- Parquet and JSON lines --------------------------------------------------------------------

TYPES = {
    "i": pa.array([1, None] * 15, pa.int16()),
    "f": pa.array([0.5, None] * 15, pa.float32()),
    "s": pa.array(["é", None, ""] * 10),
    "b": pa.array([True, None, False] * 10),
    "d": pa.array(["x", "y"] * 15).dictionary_encode(),
    "day": pa.array([datetime.date(1970, 1, 11)] * 30),
    "when": pa.array([datetime.datetime(1970, 1, 1, 0, 0, 1)] * 30, pa.timestamp("ms")),
}


def test_parquet_metadata_types(tmp_path: Path) -> None:
    file = layouts.parquet(
        tmp_path / "a.parquet", X, **TYPES, tags=[["a"]] * 30, blob=[b"x"] * 30, nothing=[None] * 30
    )
    source = open_source(file)
    assert any("'tags' (list" in note and "'blob' (binary)" in note for note in source.notes)
    assert any("'when' (timestamp[ms]) is kept as integers, in ms" in n for n in source.notes)
    table = metadata(source)
    assert {f.name: str(f.type) for f in table.schema} == {
        "i": "int64",
        "f": "double",
        "s": "string",
        "b": "bool",
        "d": "string",
        "day": "int64",
        "when": "int64",
    }
    assert table.column("s").to_pylist() == ["é", None, ""] * 10
    assert table.column("i").null_count == 15
    assert table.column("day").to_pylist() == [10] * 30
    assert table.column("when").to_pylist() == [1000] * 30


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_columns_can_be_chosen(tmp_path: Path, form: str) -> None:
    write = layouts.parquet if form == "parquet" else layouts.jsonl
    columns = {
        "emb2": layouts.lists(X * 2).to_pylist(),
        "number": list(range(60, 0, -2)),
        "c": [1] * 30,
    }
    file = write(tmp_path / f"a.{form}", X, "emb1", **columns)
    with pytest.raises(
        UserError, match=r"more than one column.*--vectors.*'emb1', 'emb2'|'emb2', 'emb1'"
    ):
        open_source(file)
    with open_source(file, ReaderOptions(vectors="emb2", ids="number", keep=("c",))) as source:
        blocks = list(source.blocks(7))
        assert source.columns == ("c",)
        assert source.has_ids
    np.testing.assert_array_equal(np.concatenate([b.ids for b in blocks]), columns["number"])
    np.testing.assert_array_equal(np.concatenate([b.vectors for b in blocks]), X * 2)
    for wrong in (
        ReaderOptions(vectors="emb3"),
        ReaderOptions("emb1", ids="nubmer"),
        ReaderOptions("emb1", keep=("d",)),
    ):
        with pytest.raises(UserError, match=r"emb3.*did you mean|did you mean 'number'|'d'"):
            open_source(file, wrong)


def test_an_integer_id_is_taken_and_text_is_kept(tmp_path: Path) -> None:
    file = layouts.parquet(tmp_path / "a.parquet", X, id=np.arange(30) + 5)
    assert open_source(file).has_ids
    text = layouts.parquet(tmp_path / "b.parquet", X, _id=[f"doc{i}" for i in range(30)])
    source = open_source(text, ReaderOptions(ids="_id"))
    assert not source.has_ids
    assert any("own ids '_id' are kept" in note for note in source.notes)
    assert metadata(source).column("_id").to_pylist()[3] == "doc3"


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.large_list(pa.float16()), None])
def test_parquet_list_types(tmp_path: Path, kind: pa.DataType | None) -> None:
    kind = kind or pa.list_(pa.float32(), 6)
    column = pa.array([row.tolist() for row in SMALL.astype(float)], kind)
    pq.write_table(pa.table({"emb": column}), tmp_path / "a.parquet")
    np.testing.assert_array_equal(vectors(open_source(tmp_path / "a.parquet")), SMALL)


def ragged(row: int, value: Any) -> list[Any]:
    out: list[Any] = X.tolist()
    out[row] = value
    return out


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (ragged(9, None), "row 9: the vector is missing"),
        (ragged(9, [1.0]), "row 9: the vector has 1 components where the first has 6"),
        (ragged(9, []), "row 9: the vector has 0 components"),
        (ragged(9, [1.0, None, 1, 1, 1, 1]), "row 9: component 1 is missing"),
        (ragged(9, [1.0, float("nan"), 1, 1, 1, 1]), "row 9: component 1 is nan"),
        (ragged(0, None), "row 0: the vector is missing"),
        (ragged(0, []), "claims 0 components"),
    ],
)
def test_parquet_vectors_that_are_none(tmp_path: Path, column: list[Any], message: str) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"emb": pa.array(column, pa.list_(pa.float32()))}), file)
    with pytest.raises(DataError, match=message):
        vectors(open_source(file))


def test_parquet_ids_that_are_none(tmp_path: Path) -> None:
    file = layouts.parquet(tmp_path / "a.parquet", X, id=pa.array([1, None] * 15))
    with pytest.raises(DataError, match="row 1: id 'id' is missing"):
        vectors(open_source(file))
    file = layouts.parquet(tmp_path / "b.parquet", X, id=pa.array([2**63] * 30, pa.uint64()))
    source = open_source(file)
    assert source.labels == "id"
    assert any("some are 2^63 or more" in note for note in source.notes)


def test_parquet_without_vectors(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="no column of vectors"):
        open_source(tmp_path / "a.parquet")
    layouts.parquet(tmp_path / "b.parquet", X[:0])
    with pytest.raises(DataError, match="no vectors"):
        open_source(tmp_path / "b.parquet")


def test_shards_in_order_without_other_splits(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "en"
    folder.mkdir(parents=True)
    layouts.parquet(folder / "train-00000-of-00002-abc.parquet", X[:17], title=["a"] * 17)
    layouts.parquet(folder / "train-00001-of-00002-def.parquet", X[17:], title=["b"] * 13)
    layouts.parquet(folder / "test-00000-of-00001.parquet", Q, title=["c"] * 5)
    source = open_source(tmp_path)
    assert "queries are test-00000-of-00001.parquet" in source.notes
    np.testing.assert_array_equal(source.queries, Q)
    assert metadata(source).column("title").to_pylist() == ["a"] * 17 + ["b"] * 13
    np.testing.assert_array_equal(vectors(open_source(tmp_path, ReaderOptions(rows=20)), 3), X[:20])
    layouts.parquet(folder / "train-00002-of-00002.parquet", X, title=[1] * 30)
    with pytest.raises(DataError, match=r"column 'title' is int64 where train-00000.*has string"):
        open_source(tmp_path)


def test_jsonl_metadata_types(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"v": row.tolist()} for row in X.astype(float)]
    rows[0] |= {"i": 1, "f": 1, "s": "é", "b": True, "mixed": 1, "o": {}, "l": ["a"]}
    rows[29] |= {"i": None, "f": 0.5, "mixed": "1", "late": 7, "big": 2**70, "half": "\ud800"}
    file = tmp_path / "a.jsonl"
    file.write_text("\n\n".join(map(json.dumps, rows)))
    source = open_source(file)
    table = metadata(source)
    assert {f.name: str(f.type) for f in table.schema} == {
        "i": "int64",
        "f": "double",
        "s": "string",
        "b": "bool",
        "late": "int64",
        "mixed": "string",
        "big": "string",
    }
    assert table.column("late").to_pylist() == [None] * 29 + [7]
    (note,) = [note for note in source.notes if "left out" in note]
    assert all(name in note for name in ("'o'", "'l' (", "half"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"v": [1, 2], "a": 1', "line 2: the line is not JSON"),
        ("[" * 100_000, "line 2: the line is not JSON"),
        ("7", "line 2: the line is neither an object nor a list"),
        ("[1, 2]", "row 1: the row is a list"),
        ('{"v": [1, 2, 3]}', "row 1: the vector has 3 components where the first has 2"),
        ('{"v": [1, "x"]}', "row 1: 'v' is not a list of numbers"),
        ('{"w": [1, 2], "v": null}', "row 1: 'v' is not a list|more than one column"),
        ('{"v": [1, NaN]}', "row 1: component 1 is nan"),
        ('{"v": [1, 1e999]}', "row 1: component 1 is inf"),
        ('{"v": [1, 1' + "0" * 400 + "]}", "too large for a float"),
        ('{"v": [1, ' + "1" * 5000 + "]}", "line 2: the line is not JSON"),
        ('{"v": [true, 1]}', "row 1: 'v' is not a list of numbers"),
    ],
)
def test_jsonl_lines_that_are_none(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"v": [1, 2]}\n' + line + "\n")
    with pytest.raises(UserError, match=message):
        vectors(open_source(tmp_path / "a.jsonl"))


def test_jsonl_of_bare_lists(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps(row.tolist()) + "\n" for row in X))
    np.testing.assert_array_equal(vectors(open_source(file)), X)
    with file.open("a") as out:
        out.write('{"v": [1]}\n')
    with pytest.raises(DataError, match="row 30: 'the line' is not a list"):
        vectors(open_source(file))


# --- folders -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [1, 3])
def test_vectordbbench(tmp_path: Path, shards: int) -> None:
    folder = layouts.vectordbbench(tmp_path / "cohere_small_30", X, Q, shards)
    source = open_source(folder)
    assert source.format == "VectorDBBench"
    np.testing.assert_array_equal(source.queries, Q)
    assert source.neighbors is not None
    assert source.neighbors.shape == (5, 3)
    table = metadata(source)
    assert table.column("id").to_pylist() == list(range(30))
    assert table.column("labels").to_pylist()[:3] == ["label_1p", "label_90p", "label_90p"]
    only = open_source(folder, ReaderOptions(keep=("labels",)))
    assert metadata(only).schema.names == ["labels"]


def test_vectordbbench_shuffled(tmp_path: Path) -> None:
    folder = layouts.vectordbbench(tmp_path / "set", X, Q)
    order = RNG.permutation(30)
    (folder / "train.parquet").unlink()
    layouts.parquet(folder / "shuffle_train.parquet", X[order], id=order)
    with open_source(folder) as source:
        block = next(source.blocks())
    np.testing.assert_array_equal(block.ids, order)
    assert block.metadata is not None
    labels = block.metadata.column("labels").to_pylist()
    assert labels == ["label_1p" if i % 10 == 0 else "label_90p" for i in order]


def test_vectordbbench_parts_that_do_not_fit(tmp_path: Path) -> None:
    folder = layouts.vectordbbench(tmp_path / "set", X, Q)
    labels = pa.table({"id": np.arange(9), "labels": ["x"] * 9})
    pq.write_table(labels, folder / "scalar_labels.parquet")
    with pytest.raises(DataError, match="id 9 has no label"):
        vectors(open_source(folder))
    layouts.parquet(folder / "test.parquet", Q[:3])
    with pytest.raises(DataError, match="5 lists for 3 queries"):
        open_source(folder)
    layouts.parquet(folder / "test.parquet", X[:5, :4])
    with pytest.raises(DataError, match="queries, row 0: a vector has 4 components"):
        open_source(folder)


@pytest.mark.parametrize("form", ["folder", "flat.tgz", "nested.tar.gz"])
def test_qdrant(tmp_path: Path, form: str) -> None:
    path = layouts.qdrant(tmp_path / "set", X, Q)
    if form != "folder":
        path = layouts.tgz(tmp_path / form, path, "top/" if "nested" in form else "")
    source = open_source(path)
    np.testing.assert_array_equal(source.queries, Q)
    assert source.filters == (
        None,
        None,
        Eq("colour", "red"),
        Or((Range("n", gt=3, lte=9), In("colour", ("blue",)))),
        None,
    )
    assert source.neighbors is not None
    assert source.neighbors.tolist() == [[-1, -1], [0, -1], [0, 1], [-1, -1], [0, -1]]
    table = metadata(source)
    assert table.schema.names == ["colour", "n"]
    assert table.column("colour").to_pylist()[:3] == ["red", None, "red"]
    np.testing.assert_array_equal(vectors(open_source(path)), X)
    home = tmp_path / "home" / "downloads"
    assert source.path == path
    open_source(path).close()
    assert len(list(home.glob("*"))) <= (form != "folder")


def test_an_opened_archive_leaves_nothing_behind(tmp_path: Path) -> None:
    path = layouts.tgz(tmp_path / "a.tgz", layouts.qdrant(tmp_path / "set", X, Q))
    with open_source(path) as source:
        list(source.blocks())
    (tmp_path / "broken.tgz").write_bytes(path.read_bytes()[:500])
    with pytest.raises(DataError):
        open_source(tmp_path / "broken.tgz")
    assert list((tmp_path / "home" / "downloads").iterdir()) == []


@pytest.mark.parametrize(
    ("one", "message"),
    [
        ({"and": [{"loc": {"geo": {"lon": 1, "lat": 1, "radius": 5}}}]}, r"and\[0\].*'geo'"),
        ({"and": [{"t": {"match": {"text": "words"}}}]}, r"'match' with \{'text'"),
        ({"or": [{"n": {"range": {"gt": "x"}}}]}, "'range'"),
        ({"or": [{"n": {"range": None}}]}, "'range'"),
        ({"not": []}, "expected 'and' or 'or'"),
        ({"and": [7]}, "expected one field"),
        ({"and": 7}, "'and' is no list"),
        ({"and": [{"labels": {"match": {"value": "a"}}}]}, "reads 'labels'"),
    ],
)
def test_qdrant_conditions_without_counterpart(tmp_path: Path, one: Any, message: str) -> None:
    folder = layouts.qdrant(tmp_path / "set", X, Q, [one])
    with pytest.raises(Unsupported, match=message) as caught:
        open_source(folder)
    assert "tests.jsonl, row 0" in str(caught.value)
    assert "--no-conditions" in str(caught.value)
    with open_source(folder, ReaderOptions(conditions=False)) as source:
        assert source.filters is None
        assert source.queries is not None
        assert source.neighbors is None


def test_qdrant_parts_that_do_not_fit(tmp_path: Path) -> None:
    folder = layouts.qdrant(tmp_path / "set", X, Q)
    with (folder / "payloads.jsonl").open("a") as out:
        out.write("\n{}")
    with pytest.raises(DataError, match="31 payloads for 30 vectors"):
        open_source(folder)


def test_texmex_and_cuvs_folders(tmp_path: Path) -> None:
    for name in ("sift", "cuvs"):
        (tmp_path / name).mkdir()
    near = np.array([[16_777_217, 1]] * 5)  # not a float32
    layouts.vecs(tmp_path / "sift" / "sift_base.fvecs", X, "<f4")
    layouts.vecs(tmp_path / "sift" / "sift_query.fvecs", Q, "<f4")
    layouts.vecs(tmp_path / "sift" / "sift_learn.fvecs", Q, "<f4")
    layouts.vecs(tmp_path / "sift" / "sift_groundtruth.ivecs", near, "<i4")
    layouts.xbin(tmp_path / "cuvs" / "base.fbin", X, "<f4")
    layouts.xbin(tmp_path / "cuvs" / "query.fbin", Q, "<f4")
    layouts.xbin(tmp_path / "cuvs" / "groundtruth.neighbors.ibin", near, "<i4")
    for name, metric in (("sift", Metric.L2), ("cuvs", None)):
        source = open_source(tmp_path / name)
        assert source.metric is metric
        np.testing.assert_array_equal(source.queries, Q)
        np.testing.assert_array_equal(source.neighbors, near)
        np.testing.assert_array_equal(vectors(source), X)


# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.fbin", "a.npy", "a.fvecs"])
def test_nan_and_infinity_name_their_row(tmp_path: Path, name: str) -> None:
    for value in (np.nan, np.inf, -np.inf):
        x = X.copy()
        x[13, 2] = value
        with pytest.raises(DataError, match=f"row 13: component 2 is {value}") as caught:
            vectors(open_source(layouts.FILES[name](tmp_path / name, x)))
        assert str(tmp_path / name) in str(caught.value)


def test_zero_vectors_under_cosine(tmp_path: Path) -> None:
    x = X.copy()
    x[13] = 0
    source = open_source(layouts.FILES["a.npy"](tmp_path / "a.npy", x))
    assert sum(len(block.vectors) for block in source.blocks(7, metric=Metric.L2)) == 30
    with pytest.raises(DataError, match="row 13: the vector is zero"):
        list(source.blocks(7, metric=Metric.COSINE))


def test_a_dimension_that_changes_midway(tmp_path: Path) -> None:
    raw = bytearray(layouts.vecs(tmp_path / "a.fvecs", X, "<f4").read_bytes())
    raw[28 * 4 : 28 * 4 + 4] = struct.pack("<i", 5)
    (tmp_path / "a.fvecs").write_bytes(raw)
    with pytest.raises(DataError, match="row 4, offset 112: the row claims 5 components"):
        vectors(open_source(tmp_path / "a.fvecs"))


def bounded(file: Path, message: str, options: ReaderOptions | None = None) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=message):
            vectors(open_source(file, options), 1 << 30)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def npy_header(shape: str, descr: str = "'<f4'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.fbin", struct.pack("<II", 1 << 31, 128) + bytes(92), "claims 2147483648 rows"),
        ("a.fbin", struct.pack("<II", 1, 1 << 31) + bytes(92), "claims 2147483648 components"),
        ("a.fbin", struct.pack("<II", 0, 4), "no vectors"),
        ("a.fbin", struct.pack("<II", 4, 0), "claims 0 components"),
        ("a.fbin", struct.pack("<II", 2, 2) + bytes(17), "1 bytes follow the 2 rows"),
        ("a.fbin", b"abc", "3 bytes are too few"),
        ("a.fvecs", struct.pack("<i", 1 << 30) + bytes(96), "components"),
        ("a.fvecs", struct.pack("<i", 1 << 20) + bytes(96), "left over"),
        ("a.fvecs", struct.pack("<i", -1) + bytes(96), "claims -1 components"),
        ("a.fvecs", bytes(4), "claims 0 components"),
        ("a.bvecs", struct.pack("<i", 4) + bytes(7), "offset 8: after 1 rows.*3 bytes are left"),
        ("a.npy", npy_header("(1 << 31, 128)"), "cannot be read"),
        ("a.npy", npy_header("(2147483648, 128)") + bytes(40), "claims 2147483648 rows"),
        ("a.npy", npy_header("(2, 99999999999)") + bytes(40), "components"),
        ("a.npy", npy_header("(-1, 4)"), "no vectors"),
        ("a.npy", npy_header("(4,)") + bytes(16), "not a matrix"),
        ("a.npy", npy_header("(2, 2)", "'<c8'") + bytes(32), "not a matrix of real numbers"),
        ("a.npy", npy_header("(2, 2)", "'|O'") + bytes(32), "pickled Python objects"),
        ("a.npy", npy_header("(2, 2)", "'|S4'") + bytes(16), "not a matrix of real numbers"),
        ("a.npy", npy_header("(" * 500 + ")" * 500), "cannot be read"),
        ("a.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 31), "cannot be read"),
        ("a.npy", b"\x93NUMPY\x09\x00" + bytes(9), "version"),
        ("a.npy", b"<!DOCTYPE html>", "begins with b'<!DOCT'"),
        ("a.hdf5", b"<!DOCTYPE html>", "begins with"),
        ("a.parquet", b"<!DOCTYPE html>", "begins with"),
        ("a.parquet", b"PAR1" + bytes(40) + struct.pack("<I", 1 << 31) + b"PAR1", "be read"),
        ("a.npz", b"PK\3\4" + bytes(40), "cannot be read"),
        ("a.npz", b"<!DOCTYPE html>", "begins with"),
        # Ends as a zip file does, without a directory: found by fuzzing.
        ("a.bin", b"PK\3\4" + bytes(40) + b"PK\5\6" + b"\1" * 16 + bytes(2), "cannot be read"),
        ("a.jsonl", b"{" + b" " * 100, "line 1: the line is not JSON"),
        ("a.fbin", b"", "the file is empty"),
    ],
)
def test_headers_that_lie(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    bounded(tmp_path / name, message)


def test_object_arrays_are_never_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "sprung",))

    np.save(tmp_path / "a.npy", np.array([[Trap()]], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", np.array([[Trap()]], dtype=object))
    for name in ("a.npy", "a.npz"):
        bounded(tmp_path / name, "pickled Python objects, which can run any code")
    assert not (tmp_path / "sprung").exists()


def test_npz_that_claims_much(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("train.npy", npy_header("(2147483648, 128)") + bytes(1 << 20))
    bounded(tmp_path / "a.npz", "claims 2147483648 rows")
    # A member whose directory entry agrees with the lie.
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("train.npy", npy_header("(7864320, 128)") + bytes(1 << 20))
    raw = bytearray(out.getvalue())
    true = len(npy_header("(7864320, 128)")) + (1 << 20)
    lie = len(npy_header("(7864320, 128)")) + 7864320 * 128 * 4
    (tmp_path / "b.npz").write_bytes(raw.replace(struct.pack("<I", true), struct.pack("<I", lie)))
    bounded(tmp_path / "b.npz", "GB of vectors")
    bounded(tmp_path / "b.npz", "cannot be unpacked|bytes it claims", ReaderOptions(rows=9))


def test_a_crop_with_its_old_header(tmp_path: Path) -> None:
    file = layouts.xbin(tmp_path / "a.fbin", X, "<f4")
    file.write_bytes(file.read_bytes()[: 8 + 20 * 24 + 3])
    bounded(file, r"claims 30 rows.*`--rows 20` reads what is there")
    bounded(file, "cut short", ReaderOptions(rows=21))
    np.testing.assert_array_equal(vectors(open_source(file, ReaderOptions(rows=20))), X[:20])


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("missing.npy", None, "no such file"),
        ("a.txt", None, "format is not known.*hdf5"),
        ("empty", None, "no known layout"),
        ("a.npy", ReaderOptions(rows=0), "0 rows cannot be read"),
        ("a.npy", ReaderOptions(ids="id"), "no columns to choose with --id"),
        ("a.npy", ReaderOptions(vectors="x"), "no columns to choose with --vectors"),
        ("two", None, "several files"),
    ],
)
def test_paths_that_are_none(
    tmp_path: Path, path: str, options: ReaderOptions | None, message: str
) -> None:
    (tmp_path / "a.txt").write_text("hello")
    (tmp_path / "empty").mkdir()
    (tmp_path / "two").mkdir()
    for name in ("a.npy", "two/a.npy", "two/b.npy"):
        layouts.FILES["a.npy"](tmp_path / name, X)
    with pytest.raises(UserError, match=message) as caught:
        open_source(tmp_path / path, options)
    assert caught.value.exit_code == 2
