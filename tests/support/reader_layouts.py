"""Writes small files in every layout that is read, from the layouts' own descriptions."""

from __future__ import annotations

import io
import json
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

Matrix = NDArray[Any]


def vecs(path: Path, x: Matrix, dtype: str) -> Path:
    """texmex: every row is its length as int32 and its components."""
    rows = np.ascontiguousarray(x, dtype)
    path.write_bytes(b"".join(struct.pack("<i", x.shape[1]) + row.tobytes() for row in rows))
    return path


def xbin(path: Path, x: Matrix, dtype: str) -> Path:
    """big-ann: uint32 n, uint32 d, the matrix."""
    path.write_bytes(struct.pack("<II", *x.shape) + np.ascontiguousarray(x, dtype).tobytes())
    return path


def nearest(x: Matrix, q: Matrix) -> Matrix:
    """Row numbers by Euclidean distance from each query."""
    squares = ((q[:, None].astype(float) - x[None]) ** 2).sum(2)
    return np.asarray(np.argsort(squares, axis=1, kind="stable"))


def hdf5(path: Path, x: Matrix, q: Matrix | None = None, **attributes: Any) -> Path:
    """ann-benchmarks."""
    with h5py.File(path, "w") as file:
        file.attrs.update(attributes)
        file["train"] = x
        if q is not None:
            order = nearest(x, q)
            file["test"] = q
            file.create_dataset("neighbors", data=order[:, :3], dtype="i4")
            file.create_dataset("distances", data=np.zeros((len(q), 3)), dtype="f4")
    return path


def hdf5_packed(path: Path, x: Matrix) -> Path:
    """The same with compressed chunks."""
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "train", data=x, chunks=(max(1, len(x) // 3), x.shape[1]), compression=4
        )
    return path


def lists(x: Matrix, item: pa.DataType | None = None) -> Any:
    return pa.array([row.tolist() for row in x], pa.list_(item or pa.float32()))


def parquet(path: Path, x: Matrix, column: str = "emb", **columns: Any) -> Path:
    pq.write_table(pa.table({**columns, column: lists(x)}), path, row_group_size=7)
    return path


def jsonl(path: Path, x: Matrix, key: str = "emb", **columns: list[Any]) -> Path:
    rows = [
        {key: row.tolist(), **{name: values[i] for name, values in columns.items()}}
        for i, row in enumerate(x)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def text_table(path: Path, x: Matrix, separator: str = ",", **columns: list[Any]) -> Path:
    """CSV or TSV: the vectors are texts, in quotes where a comma separates cells."""
    quote = '"' if separator == "," else ""
    lines = [separator.join((*columns, "emb"))]
    for i, row in enumerate(x):
        cells = (str(values[i]) for values in columns.values())
        lines.append(separator.join((*cells, f"{quote}{row.tolist()}{quote}")))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def vectordbbench(folder: Path, x: Matrix, q: Matrix, shards: int = 1) -> Path:
    folder.mkdir()
    ids = np.arange(len(x))
    for i, part in enumerate(np.array_split(ids, shards)):
        name = "train.parquet" if shards == 1 else f"train-{i:02}-of-{shards:02}.parquet"
        parquet(folder / name, x[part], id=part)
    parquet(folder / "test.parquet", q, id=np.arange(len(q)))
    order = nearest(x, q)[:, :3]
    neighbors = pa.table({"id": np.arange(len(q)), "neighbors_id": lists(order, pa.int64())})
    pq.write_table(neighbors, folder / "neighbors.parquet")
    labels = ["label_1p" if i % 10 == 0 else "label_90p" for i in range(len(x))]
    pq.write_table(
        pa.table({"id": ids[::-1], "labels": labels[::-1]}), folder / "scalar_labels.parquet"
    )
    return folder


CONDITIONS: list[Any] = [
    None,
    {},
    {"and": [{"colour": {"match": {"value": "red"}}}]},
    {"or": [{"n": {"range": {"gt": 3, "lte": 9}}}, {"colour": {"match": {"any": ["blue"]}}}]},
]


def qdrant(folder: Path, x: Matrix, q: Matrix, conditions: list[Any] | None = None) -> Path:
    folder.mkdir()
    conditions = CONDITIONS if conditions is None else conditions
    np.save(folder / "vectors.npy", x)
    payloads = [
        {
            "colour": ["red", "blue"][i % 2],
            "n": i,
            "labels": ["a", "b"],
            "loc": {"lon": 1, "lat": 2},
        }
        for i in range(len(x))
    ]
    payloads[1].pop("colour")
    (folder / "payloads.jsonl").write_text("\n".join(map(json.dumps, payloads)))
    tests = [
        {
            "query": row.tolist(),
            "conditions": conditions[i % len(conditions)],
            "closest_ids": list(range(i % 3)),
            "closest_scores": [0.5] * (i % 3),
        }
        for i, row in enumerate(q)
    ]
    (folder / "tests.jsonl").write_text("\n".join(map(json.dumps, tests)))
    return folder


def tgz(path: Path, folder: Path, top: str = "") -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for file in sorted(folder.iterdir()):
            info = tarfile.TarInfo(f"{top}{file.name}")
            content = file.read_bytes()
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def _npz(path: Path, x: Matrix) -> Path:
    np.savez_compressed(path, train=x, test=x[:1])
    return path


def _npy(path: Path, x: Matrix) -> Path:
    np.save(path, x)
    return path


#: Every single-file layout, by the name of a file in it: writes a matrix of small integers,
#: which all of them can hold.
FILES: dict[str, Callable[[Path, Matrix], Path]] = {
    "a.fvecs": lambda path, x: vecs(path, x, "<f4"),
    "a.ivecs": lambda path, x: vecs(path, x, "<i4"),
    "a.bvecs": lambda path, x: vecs(path, x, "u1"),
    "a.fbin": lambda path, x: xbin(path, x, "<f4"),
    "a.f16bin": lambda path, x: xbin(path, x, "<f2"),
    "a.u8bin": lambda path, x: xbin(path, x, "u1"),
    "a.i8bin": lambda path, x: xbin(path, x, "i1"),
    "a.ibin": lambda path, x: xbin(path, x, "<i4"),
    "a.npy": _npy,
    "a.npz": _npz,
    "a.hdf5": lambda path, x: hdf5(path, x, x[:1]),
    "packed.hdf5": hdf5_packed,
    "a.parquet": lambda path, x: parquet(path, x, id=np.arange(len(x)), t=["é"] * len(x)),
    "a.jsonl": lambda path, x: jsonl(path, x, n=[1, *[None] * (len(x) - 1)], t=["é"] * len(x)),
    "a.csv": lambda path, x: text_table(path, x, id=list(range(len(x))), t=["é"] * len(x)),
    "a.tsv": lambda path, x: text_table(path, x, "\t", n=["", *range(1, len(x))]),
}


def at(folder: Path, name: str) -> Path:
    """A file of a folder, which is made."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def save(folder: Path, name: str, x: Matrix, **columns: Any) -> None:
    """Vectors in a file of the format that its name says."""
    file = at(folder, name)
    if name.endswith(".parquet"):
        parquet(file, x, **columns)
    elif name.endswith(".jsonl"):
        jsonl(file, x)
    elif name.endswith(".npy"):
        np.save(file, x)
    elif name.endswith("vecs"):
        vecs(file, x, "<f4")
    else:
        xbin(file, x, "<f4")


def shards(x: Matrix, *names: str) -> Callable[[Path], None]:
    """Makes shards of the rows, in the order of their names here."""

    def build(folder: Path) -> None:
        for name, some in zip(names, np.array_split(x, len(names)), strict=True):
            save(folder, name, some)

    return build


def numbered(count: int, name: str, x: Matrix) -> Callable[[Path], None]:
    """Makes shards whose number is in their name."""
    return shards(x, *(name.format(number) for number in range(count)))
