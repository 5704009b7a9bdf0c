"""Files and folders as people have them: what is imported is what the person meant, or one line
says why not."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pytest
import reader_layouts as layouts
from reader_layouts import at, save, shards

from vectrial.datasets.ingest import read_queries
from vectrial.datasets.readers import ReaderOptions, open_source
from vectrial.datasets.readers.base import VectorSource
from vectrial.datasets.readers.layout import role_of
from vectrial.model.errors import UserError
from vectrial.model.metric import Metric

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 6)).astype(np.float32)
Q = RNG.normal(size=(5, 6)).astype(np.float32)

Build = Callable[[Path], object]


def rows_of(source: VectorSource) -> np.ndarray:
    with source:
        return np.concatenate([block.vectors for block in source.blocks(7)])


def with_queries(rows: str, queries: str) -> Build:
    def build(folder: Path) -> None:
        save(folder, rows, X)
        save(folder, queries, Q)

    return build


def beside(name: str, content: bytes = b"PAR1 half a file") -> Build:
    """Rows in a file, and beside it one that is no data."""

    def build(folder: Path) -> None:
        save(folder, "data.parquet", X)
        at(folder, name).write_bytes(content)

    return build


def crop(folder: Path) -> None:
    save(folder, "query.public.10K.fbin", Q)
    whole = layouts.xbin(at(folder, "base.1B.fbin"), np.vstack([X, X]), "<f4")
    whole.rename(folder / "base.1B.fbin.crop_nb_40")
    cut = (folder / "base.1B.fbin.crop_nb_40").read_bytes()[: 8 + 40 * 24]
    (folder / "base.1B.fbin.crop_nb_40").write_bytes(cut)
    at(folder, "deep_new_groundtruth.public.10K.ibin").write_bytes(b"\1\0\0\0\1\0\0\0\0\0\0\0")


def packed(opener: Callable[..., object], suffix: str) -> Build:
    def build(folder: Path) -> None:
        plain = layouts.jsonl(at(folder, "corpus.jsonl"), X)
        (folder / f"corpus.jsonl{suffix}").write_bytes(opener(plain.read_bytes()))  # type: ignore[arg-type]
        plain.unlink()
        save(folder, "queries.jsonl", Q)

    return build


def numbered(count: int, name: str) -> Build:
    return layouts.numbered(count, name, X)


#: What a folder holds; whether its queries are Q; what a note says.
FOLDERS: dict[str, tuple[Build, bool, str]] = {
    "big-ann, a crop": (crop, True, "left out: deep_new_groundtruth"),
    "jsonl, gzip": (packed(gzip.compress, ".gz"), True, "queries are queries.jsonl"),
    "jsonl, bzip2": (packed(bz2.compress, ".bz2"), True, ""),
    "jsonl, xz": (packed(lzma.compress, ".xz"), True, ""),
    "parquet by number": (numbered(12, "{}.parquet"), False, ""),
    "parquet of Hugging Face": (numbered(12, "default/train/{}.parquet"), False, ""),
    "parquet of Spark": (
        numbered(3, "part-{:05}-8c1fd9a2-93a7-4a0a-9c65-0b7a5d2e9d11-c000.parquet"),
        False,
        "",
    ),
    "npy by number": (numbered(12, "emb_{}.npy"), False, "12 files are its rows"),
    "fbin by number": (numbered(3, "base_{}.fbin"), False, ""),
    "jsonl by number": (numbered(11, "shard{}.jsonl"), False, ""),
    "parquet and queries": (
        with_queries("corpus.parquet", "queries.parquet"),
        True,
        "queries are queries.parquet",
    ),
    "parquet and test": (with_queries("train.parquet", "test-0.parquet"), True, ""),
    "parquet and a folder of queries": (
        with_queries("train/0.parquet", "test/0.parquet"),
        True,
        "",
    ),
    "npy and queries": (with_queries("base.npy", "query.npy"), True, ""),
    "npy and test": (with_queries("train.npy", "test.npy"), True, ""),
    "fvecs and queries": (with_queries("learned.fvecs", "queries.fvecs"), True, ""),
    "fbin and queries": (with_queries("wiki_all.fbin", "queries.fbin"), True, ""),
    "rows in npy, queries in jsonl": (with_queries("x.npy", "queries.jsonl"), True, ""),
    "a notebook's copies": (
        with_queries("x.parquet", ".ipynb_checkpoints/x-checkpoint.parquet"),
        False,
        "",
    ),
    "a Mac's copies": (beside("._data.parquet"), False, ""),
    "a Mac's folder": (beside("__MACOSX/data.parquet"), False, ""),
    "Spark's notes": (beside("_SUCCESS", b""), False, ""),
    "Spark's unfinished parts": (beside("_temporary/0/part-0.parquet"), False, ""),
    "a checksum": (beside(".data.parquet.crc"), False, ""),
    "a download under way": (beside("more.parquet.part"), False, ""),
    "a file put aside": (beside("data.parquet.bak"), False, ""),
    "a readme": (beside("README.md"), False, "passed over: README.md"),
    "validation rows": (
        with_queries("train-0.parquet", "validation-0.parquet"),
        False,
        "left out: validation-0.parquet",
    ),
    "queries of another length": (
        lambda f: (save(f, "x.npy", X), save(f, "queries.npy", Q[:, :4])),
        False,
        "left out: queries.npy",
    ),
    "queries without vectors": (
        lambda f: (save(f, "x.npy", X), at(f, "queries.jsonl").write_text('{"text": "a"}\n')),
        False,
        "left out: queries.jsonl",
    ),
    "a folder in a folder": (numbered(2, "export/2026/{}.parquet"), False, ""),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_read_as_it_is_meant(name: str, tmp_path: Path) -> None:
    build, asked, note = FOLDERS[name]
    build(tmp_path)
    source = open_source(tmp_path)
    np.testing.assert_allclose(rows_of(source), X)
    if asked:
        assert source.queries is not None
        np.testing.assert_allclose(source.queries, Q)
    else:
        assert source.queries is None
    assert any(note in one for one in (*source.notes, ""))


def delta(folder: Path) -> None:
    shards(X, "part-0.parquet", "part-1.parquet")(folder)
    added = [{"add": {"path": "part-0.parquet"}}, {"remove": {"path": "part-1.parquet"}}]
    at(folder, "_delta_log/0.json").write_text("\n".join(map(json.dumps, added)))


#: What a folder holds, and the line that says why it is not read.
REFUSED: dict[str, tuple[Build, str]] = {
    "queries alone": (
        lambda f: save(f, "queries.parquet", Q),
        "say that they hold queries, and none rows",
    ),
    "neighbours alone": (lambda f: save(f, "groundtruth.fbin", Q), "say that they hold neighbours"),
    "two datasets": (
        lambda f: (save(f, "a.npy", X), save(f, "b.npy", X)),
        "several files of vectors: a.npy, b.npy",
    ),
    "two formats": (
        lambda f: (save(f, "a.npy", X), save(f, "a.parquet", X)),
        "several files of vectors",
    ),
    "LAION": (
        lambda f: (
            numbered(2, "img_emb/img_emb_{}.npy")(f),
            numbered(2, "text_emb/text_emb_{}.npy")(f),
        ),
        "several files of vectors: img_emb/img_emb_0.npy",
    ),
    "a Delta table": (delta, "a Delta table, whose log says"),
    "an Iceberg table": (
        lambda f: (
            save(f, "data/0.parquet", X),
            at(f, "metadata/v1.metadata.json").write_text("{}"),
        ),
        "an Iceberg table",
    ),
    "a Hudi table": (
        lambda f: (save(f, "0.parquet", X), at(f, ".hoodie/a").write_text("")),
        "a Hudi table",
    ),
    "shards of several lengths": (
        lambda f: (save(f, "e_0.npy", X), save(f, "e_1.npy", X[:, :3])),
        "3 components where e_0.npy has 6",
    ),
    "nothing": (lambda f: None, "no known layout"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_folder_that_leaves_it_open_is_refused(name: str, tmp_path: Path) -> None:
    build, says = REFUSED[name]
    build(tmp_path)
    with pytest.raises(UserError, match=says) as refused:
        open_source(tmp_path)
    assert "\n" not in str(refused.value)


def test_a_file_of_queries_is_rows_where_it_is_named(tmp_path: Path) -> None:
    save(tmp_path, "queries.parquet", Q)
    np.testing.assert_array_equal(rows_of(open_source(tmp_path / "queries.parquet")), Q)


def test_laions_embeddings_are_read_where_they_are_named(tmp_path: Path) -> None:
    numbered(11, "img_emb/img_emb_{}.npy")(tmp_path)
    save(tmp_path, "text_emb/text_emb_0.npy", X)
    np.testing.assert_array_equal(rows_of(open_source(tmp_path / "img_emb")), X)
    np.testing.assert_array_equal(
        rows_of(open_source(tmp_path / "img_emb", ReaderOptions(rows=13))), X[:13]
    )


@pytest.mark.parametrize("opener", [gzip.compress, bz2.compress, lzma.compress])
def test_a_file_that_is_compressed_as_a_whole(
    opener: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    plain = layouts.xbin(tmp_path / "a.fbin", X, "<f4")
    (tmp_path / "a.fbin.gz").write_bytes(opener(plain.read_bytes()))
    np.testing.assert_array_equal(rows_of(open_source(tmp_path / "a.fbin.gz")), X)


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("latest.npy", "rows"),
        ("contest_queries.fbin", "queries"),
        ("test-00000-of-00001.parquet", "queries"),
        ("sift_query.fvecs", "queries"),
        ("gt.ibin", "neighbours"),
        ("dev/0.parquet", "another split"),
        ("embeddings.parquet", "rows"),
    ],
)
def test_roles_by_name(name: str, role: str) -> None:
    assert role_of(Path(name).parts) == role


def test_arrays_beside_the_vectors_of_hdf5_are_columns(tmp_path: Path) -> None:
    file = layouts.hdf5(tmp_path / "a.hdf5", X, Q, distance="euclidean")
    with h5py.File(file, "a") as out:
        out["ids"] = np.arange(40)[::-1] * 2
        out["price"] = np.linspace(0, 1, 40)
        out["title"] = [f"title {at}" for at in range(40)]
        out["in_stock"] = np.arange(40) % 2 == 0
        out["image"] = np.zeros((40, 2, 2))
        out.create_group("more")["a"] = 1
    source = open_source(file)
    with source:
        blocks = list(source.blocks(7))
    ids = np.concatenate([block.ids for block in blocks if block.ids is not None])
    table = pa.concat_tables([block.metadata for block in blocks if block.metadata is not None])
    assert ids.tolist() == [2 * at for at in range(39, -1, -1)]
    assert {f.name: str(f.type) for f in table.schema} == {
        "in_stock": "bool", "price": "double", "title": "string",
    }  # fmt: skip
    assert table.column("title").to_pylist()[39] == "title 39"
    assert "left out: 'image', 'more'" in source.notes
    np.testing.assert_array_equal(source.queries, Q)


def test_arrays_beside_the_vectors_of_npz_are_columns(tmp_path: Path) -> None:
    big_endian = np.arange(40, dtype=">i4")
    np.savez(tmp_path / "a.npz", train=X, test=Q, ids=np.arange(40) + 7, year=big_endian,
             name=np.array([f"n{at}" for at in range(40)]), other=np.zeros(3))  # fmt: skip
    source = open_source(tmp_path / "a.npz")
    with source:
        blocks = list(source.blocks(7))
    table = pa.concat_tables([block.metadata for block in blocks if block.metadata is not None])
    assert [int(block.ids[0]) for block in blocks if block.ids is not None][:2] == [7, 14]
    assert table.column("year").to_pylist() == list(range(40))
    assert table.column("name").to_pylist()[3] == "n3"
    assert "left out: 'other'" in source.notes
    only = open_source(tmp_path / "a.npz", ReaderOptions(keep=("year",), ids="none"))
    assert (only.columns, only.has_ids) == (("year",), False)
    only.close()


def test_queries_of_a_file_that_has_rows_too_are_its_queries(tmp_path: Path) -> None:
    file = layouts.hdf5(tmp_path / "a.hdf5", X, Q, distance="euclidean")
    np.testing.assert_array_equal(read_queries(file, 6, Metric.L2), Q)
    save(tmp_path, "q.npy", Q)
    np.testing.assert_array_equal(read_queries(tmp_path / "q.npy", 6, Metric.L2), Q)


def test_ids_of_several_kinds_are_texts(tmp_path: Path) -> None:
    rows = [{"id": [at, f"doc-{at}", 2**70][at % 3], "emb": X[at].tolist()} for at in range(9)]
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = open_source(file, ReaderOptions(ids="id"))
    assert source.labels == "id"
    with source:
        (block,) = source.blocks(100)
    assert block.metadata is not None
    assert block.metadata.column("id").to_pylist()[:3] == ["0", "doc-1", str(2**70)]
    mixed = [{"id": at, "odd": [1, [2]][at % 2], "emb": X[at].tolist()} for at in range(9)]
    file.write_text("".join(json.dumps(row) + "\n" for row in mixed))
    with pytest.raises(UserError, match="'odd' is of several kinds; ids are"):
        open_source(file, ReaderOptions(ids="odd"))
