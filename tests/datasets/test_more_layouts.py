"""Datasets as others publish and export them: what is imported is what the person meant, or one
line says why not."""

from __future__ import annotations

import bz2
import json
import os
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import reader_layouts as layouts
from reader_layouts import at, numbered, save, shards

from vectrial.datasets.readers import open_source
from vectrial.model.errors import UserError

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 6)).astype(np.float32)
Q = RNG.normal(size=(5, 6)).astype(np.float32)
NEIGHBOURS = np.zeros((5, 3), np.int32)

Build = Callable[[Path], object]
TRAIN = "train-00000-of-00001.parquet"


def files(**named: np.ndarray) -> Build:
    """Files of vectors: `__` in a name is a folder's slash, and `_` before its end a dot."""

    def build(folder: Path) -> None:
        for name, x in named.items():
            stem, _, suffix = name.replace("__", "/").rpartition("_")
            save(folder, f"{stem}.{suffix}", x)

    return build


def sift(folder: Path, neighbours: str = "sift_groundtruth.ivecs") -> None:
    files(sift_base_fvecs=X, sift_query_fvecs=Q, sift_learn_fvecs=X[::-1])(folder)
    layouts.vecs(at(folder, neighbours), NEIGHBOURS, "<i4")


def cuvs(folder: Path) -> None:
    files(base_fbin=X, query_fbin=Q)(folder)
    layouts.xbin(at(folder, "groundtruth.neighbors.ibin"), NEIGHBOURS, "<i4")


def beir(folder: Path) -> None:
    files(corpus_jsonl=X, queries_jsonl=Q)(folder)
    at(folder, "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n1\t2\t1\n")


def table(name: str, x: np.ndarray = X, column: str = "emb", **columns: object) -> Build:
    def build(folder: Path) -> None:
        pq.write_table(pa.table({column: layouts.lists(x), **columns}), at(folder, name))

    return build


def both(*builds: Build) -> Build:
    def build(folder: Path) -> None:
        for one in builds:
            one(folder)

    return build


def text(name: str, content: str | bytes = "x") -> Build:
    raw = content if isinstance(content, bytes) else content.encode()
    return lambda folder: at(folder, name).write_bytes(raw)


def array(name: str, x: np.ndarray) -> Build:
    return lambda folder: np.save(at(folder, name), x)


def renamed(build: Build, old: str, new: str) -> Build:
    return both(build, lambda folder: (folder / old).rename(folder / new))


def downloaded(folder: Path) -> None:
    """As a hub's client keeps what it downloads: links to files that are called by their digest."""
    renamed(files(x_parquet=X), "x.parquet", "abc")(folder)
    link = at(folder, f"snapshots/1/data/{TRAIN}")
    link.symlink_to(os.path.relpath(folder / "abc", link.parent))


def tarred(folder: Path) -> None:
    sift(folder / "made" / "sift")
    with tarfile.open(folder / "sift.tar.gz", "w:gz") as out:
        out.add(folder / "made" / "sift", "sift")
    shutil.rmtree(folder / "made")


def zipped(folder: Path) -> None:
    numbered(2, "made/train-{}.parquet", X)(folder)
    with zipfile.ZipFile(folder / "rows.zip", "w") as out:
        for name in ("train-0.parquet", "train-1.parquet"):
            out.write(folder / "made" / name, name)
    shutil.rmtree(folder / "made")


def an_empty_part(folder: Path) -> None:
    files(part__0_parquet=X)(folder)
    some = pq.read_table(folder / "part/0.parquet")
    pq.write_table(some.slice(0, 0), folder / "part/1.parquet")


def lines(name: str, key: str) -> Build:
    rows = [{"docid": f"D{at}", key: x.tolist()} for at, x in enumerate(X)]
    return text(name, "".join(json.dumps(row) + "\n" for row in rows))


LABELS = [f"v{at}" for at in range(40)]
#: What a folder holds; whether its queries are Q; columns; what a note says.
READ: dict[str, tuple[Build, bool, tuple[str, ...], str]] = {
    "texmex": (sift, True, (), "Euclidean"),
    "texmex, in a tar": (tarred, True, (), "Euclidean"),
    "cuVS": (cuvs, True, (), ""),
    "VectorDBBench": (lambda f: layouts.vectordbbench(f / "made", X, Q), True, ("id",), "'emb'"),
    "VectorDBBench, shuffled shards": (
        lambda f: layouts.vectordbbench(f / "made", X, Q, shards=2),
        True,
        ("id",),
        "'emb'",
    ),
    "qdrant": (lambda f: layouts.qdrant(f / "made", X, Q), True, (), ""),
    "BEIR with vectors": (beir, True, (), "passed over: qrels/test.tsv"),
    "a hub's shards": (
        both(
            shards(X, "data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"),
            text("README.md"),
        ),
        False,
        (),
        "2 files are its rows",
    ),
    "a hub's splits": (
        both(
            table(f"data/{TRAIN}"),
            table("data/test-00000-of-00001.parquet", Q),
            table("data/validation-00000-of-00001.parquet"),
        ),
        True,
        (),
        "left out: validation-00000-of-00001.parquet, by name another split",
    ),
    "a hub's downloads": (downloaded, False, (), ""),
    "partitions of Hive": (
        shards(X, "lang=de/part-0.parquet", "lang=en/part-0.parquet"),
        False,
        (),
        "left out, since only names of folders say it: 'lang'",
    ),
    "another name of the vectors": (
        table(TRAIN, column="openai", _id=LABELS, title=LABELS),
        False,
        ("_id", "title"),
        "vectors are column 'openai'",
    ),
    "an export of Pinecone": (
        table("part.parquet", column="values", id=LABELS, metadata=LABELS, sparse=pa.nulls(40)),
        False,
        ("id", "metadata"),
        "left out, of types that no filter reads: 'sparse' (null)",
    ),
    "Anserini": (lines("vectors.part00.jsonl", "vector"), False, ("docid",), "key 'vector'"),
    "an empty part": (an_empty_part, False, (), "2 files are its rows"),
    "shards in a zip": (zipped, False, (), "2 files are its rows"),
    "a name of words": (renamed(files(x_npy=X), "x.npy", "my größe — 1.npy"), False, (), ""),
    "capital letters": (renamed(files(x_npy=X), "x.npy", "DATA.NPY"), False, (), ""),
    "half precision": (array("x.npy", X.astype(np.float16)), False, (), ""),
    "Fortran's order": (array("x.npy", np.asfortranarray(X)), False, (), ""),
    "the other byte order": (array("x.npy", X.astype(">f4")), False, (), ""),
    "names of the rows in a text": (
        both(files(x_npy=X), text("ids.txt", "a\n" * 40)),
        False,
        (),
        "passed over: ids.txt",
    ),
    "many queries": (
        files(base_npy=X, queries_npy=np.repeat(Q, 2001, axis=0)),
        False,
        (),
        "10,005 rows (--queries FILE takes them all the same)",
    ),
    "ann-benchmarks and a readme": (
        both(
            lambda f: layouts.hdf5(at(f, "a.hdf5"), X, Q, distance="euclidean"), text("readme.txt")
        ),
        True,
        (),
        "passed over: readme.txt",
    ),
}
#: What a folder holds, and what the line says.
REFUSED: dict[str, tuple[Build, str]] = {
    "two configurations of a hub": (
        both(table(f"en/{TRAIN}"), table(f"simple/{TRAIN}")),
        "holds several whole datasets: en, simple (name one of them)",
    ),
    "two splits of a hub": (
        both(table(f"data/{TRAIN}"), table("data/unsupervised-00000-of-00001.parquet")),
        "holds several whole datasets: train-00000-of-00001.parquet, unsupervised-",
    ),
    "two datasets in folders": (
        files(glove__base_fvecs=X, sift__base_fvecs=X),
        "several files of vectors: glove/base.fvecs, sift/base.fvecs",
    ),
    "two of ann-benchmarks": (
        both(*(lambda f, n=n: layouts.hdf5(at(f, n), X, Q) for n in ("a.hdf5", "b.hdf5"))),
        "several files of vectors: a.hdf5, b.hdf5",
    ),
    "a column in each file": (
        both(array("id.npy", np.arange(40)), files(vector_npy=X)),
        "several files of vectors: id.npy, vector.npy",
    ),
    "LAION with its captions": (
        both(files(img_emb__img_emb_0_npy=X), table("metadata/metadata_0.parquet")),
        "several files of vectors: img",
    ),
    "BEIR, texts alone": (
        both(text("corpus.jsonl", '{"_id": "1", "text": "b"}\n'), text("queries.jsonl", "{}\n")),
        "there is no column of vectors",
    ),
    "Rally's documents": (
        text("documents.json.bz2", bz2.compress(b'{"emb": [1.0, 2.0]}\n')),
        "no known layout",
    ),
    "a folder of Chroma": (both(text("chroma.sqlite3"), text("8d/data.bin")), "no known layout"),
    "a table of Lance": (
        both(text("x.lance/data/a.lance"), text("x.lance/_versions/1.manifest")),
        "no known layout",
    ),
    "Arrow's own files": (
        both(text("data-00000-of-00001.arrow"), text("dataset_info.json", "{}")),
        "no known layout",
    ),
    "Zarr": (both(text("emb/.zarray", "{}"), text("emb/0.0")), "no known layout"),
}


@pytest.mark.parametrize("name", READ)
def test_a_published_layout_is_read_as_it_is_meant(name: str, tmp_path: Path) -> None:
    build, asked, columns, note = READ[name]
    build(tmp_path)
    only = next(iter(tmp_path.iterdir()))
    source = open_source(only if only.is_file() and not list(tmp_path.iterdir())[1:] else tmp_path)
    with source:
        rows = np.concatenate([block.vectors for block in source.blocks(7)])
    np.testing.assert_allclose(rows, X, atol=2e-3)
    assert (source.queries is not None) is asked
    if asked:
        np.testing.assert_allclose(source.queries, Q)
    assert set(columns) <= set(source.columns)
    assert any(note in one for one in (*source.notes, "")), source.notes


@pytest.mark.parametrize("name", REFUSED)
def test_a_layout_that_leaves_it_open_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    build, says = REFUSED[name]
    build(tmp_path)
    with pytest.raises(UserError) as refused:
        open_source(tmp_path)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def torch(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("emb/data.pkl", b"x")


#: What a single file is, and what the line says.
FILES: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "tensors of PyTorch": ("emb.pt", torch, "no known layout in the archive"),
    "objects": (
        "emb.npy",
        lambda path: np.save(path, np.array([X[0], X[1][:3]], dtype=object)),
        "pickled Python objects",
    ),
    "an index of FAISS": ("a.faiss", lambda path: path.write_bytes(b"IxF2" + bytes(60)), "format"),
    "safetensors": ("a.safetensors", lambda path: path.write_bytes(b"\x10" + bytes(30)), "format"),
    "JSON": ("a.json", lambda path: path.write_text("[]"), "make Parquet of it"),
    "words and numbers": ("glove.txt", lambda path: path.write_text("the 0.1 0.2\n"), "format"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_no_known_format_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    file, make, says = FILES[name]
    make(tmp_path / file)
    with pytest.raises(UserError) as refused:
        open_source(tmp_path / file)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
