"""Files of vectors that are damaged, lie about themselves or are something else, by name."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import struct
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS, DIM = 60, 4
X = np.random.default_rng(7).standard_normal((ROWS, DIM)).astype(np.float32)

#: Makes the input below a folder; returns its path and the options of the import.
Case = Callable[[Path], tuple[Path, Sequence[str]]]
CASES: dict[str, Case] = {}
L2 = ("--metric", "l2")


def case(name: str, file: str, options: Sequence[str] = L2) -> Callable[[Any], Any]:
    """Keep a function that writes `file` as the case `name`."""

    def keep(write: Callable[[Path], None]) -> Callable[[Path], None]:
        def make(folder: Path) -> tuple[Path, Sequence[str]]:
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path)
            return path, options

        assert name not in CASES
        CASES[name] = make
        return write

    return keep


def bytes_case(name: str, file: str, content: bytes, options: Sequence[str] = L2) -> None:
    """The case of a file with this content."""
    case(name, file, options)(lambda path: path.write_bytes(content))


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def npy_header(shape: str, descr: str = "<f4", order: str = "False") -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


GOOD_NPY = npy(X)


def parquet(path: Path, **columns: Any) -> None:
    """A Parquet file with a column of vectors, unless that is given as None, and others."""
    if columns.get("vector", 0) is None:
        columns.pop("vector")
    else:
        columns = {"vector": pa.array(list(X)), **columns}
    pq.write_table(pa.table(columns), path)


def parquet_bytes(**columns: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"vector": pa.array(list(X)), **columns}), out)
    return out.getvalue()


def hdf5(path: Path, **arrays: Any) -> None:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array)


def lines(*rows: Any) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


# -- numpy ---------------------------------------------------------------------------------

for name, content in {
    "empty": b"",
    "one byte": b"\x93",
    "magic only": b"\x93NUMPY",
    "cut in its header": GOOD_NPY[:40],
    "cut in its rows": GOOD_NPY[:-7],
    "web page": b"<!DOCTYPE html><html>404</html>",
    "version 9": b"\x93NUMPY\x09\x00" + GOOD_NPY[8:],
    "header of 4 GB": b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}",
    "header is code": b"\x93NUMPY\x01\x00\x1a\x00__import__('os').getpid()\n ",
    "ten thousand thousand million rows": npy_header("(10000000000000, 4)"),
    "negative rows": npy_header("(-5, 4)"),
    "rows beyond 64 bits": npy_header("(99999999999999999999, 4)"),
    "no rows": npy(np.empty((0, 4), np.float32)),
    "no columns": npy(np.empty((5, 0), np.float32)),
    "one dimension": npy(X[0]),
    "three dimensions": npy(X[None]),
    "pickles": npy(np.array([[object()]], dtype=object)),
    "text": npy(np.array([["a", "b"]])),
    "complex": npy(X.astype(np.complex64)),
    "booleans": npy(X > 0),
    "dates": npy(np.zeros((5, 4), "datetime64[s]")),
    "records": npy(np.zeros(5, [("a", "f4")])),
    "nan": npy(np.where(np.arange(ROWS)[:, None] == 3, np.nan, X)),
    "infinite": npy(np.where(np.arange(ROWS)[:, None] == 3, np.inf, X)),
    "beyond float32": npy(np.full((20, 4), 1e300)),
    "one row": npy(X[:1]),
    "unknown type": npy_header("(5, 4)", "<f3"),
}.items():
    bytes_case(f"npy: {name}", "a.npy", content)
bytes_case("npy: zero under cosine", "a.npy", npy(np.zeros((20, 4), "f4")), ("--metric", "cosine"))
bytes_case("npy: no metric", "a.npy", GOOD_NPY, ())
bytes_case("npy: columns", "a.npy", GOOD_NPY, (*L2, "--id", "id"))
bytes_case("npy: more queries than rows", "a.npy", GOOD_NPY, (*L2, "--queries", "60"))
bytes_case("npy: no queries", "a.npy", GOOD_NPY, (*L2, "--queries", "0"))
bytes_case("npy: negative queries", "a.npy", GOOD_NPY, (*L2, "--queries", "-1"))
bytes_case("npy: queries elsewhere", "a.npy", GOOD_NPY, (*L2, "--queries", "none.npy"))
bytes_case("npy: no rows asked for", "a.npy", GOOD_NPY, (*L2, "--rows", "0"))
bytes_case("npy: another metric", "a.npy", GOOD_NPY, ("--metric", "taxi"))


def npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


bytes_case("npz: no arrays", "a.npz", npz())
bytes_case("npz: two arrays", "a.npz", npz(one=X, two=X))
bytes_case("npz: no matrix", "a.npz", npz(one=X[0]))
bytes_case("npz: cut short", "a.npz", npz(vectors=X)[:-30])
bytes_case("npz: not a zip", "a.npz", b"PK\x03\x04" + b"\0" * 40)
bytes_case("npz: pickles", "a.npz", npz(vectors=np.array([[None]], dtype=object)))
bytes_case("npz: an array that is not there", "a.npz", npz(v=X), (*L2, "--vectors", "w"))
bytes_case("npz: neighbours of other rows", "a.npz", npz(
    vectors=X, queries=X[:2], neighbors=np.full((2, 3), 10**6)
))  # fmt: skip

# -- the formats of benchmarks -------------------------------------------------------------

for suffix in ("fvecs", "bvecs", "ivecs"):
    bytes_case(f"{suffix}: empty", f"a.{suffix}", b"")
    bytes_case(f"{suffix}: two bytes", f"a.{suffix}", b"\1\0")
    bytes_case(f"{suffix}: no components", f"a.{suffix}", struct.pack("<i", 0) * 4)
    bytes_case(f"{suffix}: negative", f"a.{suffix}", struct.pack("<i", -4) + b"\0" * 16)
    bytes_case(f"{suffix}: 2³¹ components", f"a.{suffix}", struct.pack("<i", 2**31 - 1) + b"\0" * 9)
row = struct.pack("<i", DIM) + X[0].tobytes()
bytes_case("fvecs: cut short", "a.fvecs", row * 20 + row[:9])
bytes_case("fvecs: uneven", "a.fvecs", row * 20 + struct.pack("<i", 3) + X[0].tobytes())
bytes_case("fvecs: nan", "a.fvecs", row * 20 + struct.pack("<i4f", 4, *[float("nan")] * 4))
for suffix in ("fbin", "u8bin", "i8bin", "f16bin"):
    bytes_case(f"{suffix}: empty", f"a.{suffix}", b"")
    bytes_case(f"{suffix}: half a header", f"a.{suffix}", b"\1\0\0\0\1")
    bytes_case(f"{suffix}: 4·10⁹ rows", f"a.{suffix}", struct.pack("<II", 2**32 - 1, 960))
    bytes_case(f"{suffix}: no rows", f"a.{suffix}", struct.pack("<II", 0, 4))
bytes_case("fbin: cut short", "a.fbin", struct.pack("<II", ROWS, DIM) + X.tobytes()[:-3])

# -- HDF5 ----------------------------------------------------------------------------------

Q = X[:3]
bytes_case("hdf5: empty", "a.hdf5", b"")
bytes_case("hdf5: garbage", "a.hdf5", b"\x89HDF\r\n\x1a\n" + b"\xff" * 500)
bytes_case("hdf5: another format", "a.hdf5", GOOD_NPY)
case("hdf5: no arrays", "a.hdf5")(lambda path: hdf5(path))
case("hdf5: a vector", "a.hdf5")(lambda path: hdf5(path, train=X[0]))
case("hdf5: texts", "a.hdf5")(lambda path: hdf5(path, train=[["a"]]))
case("hdf5: other queries", "a.hdf5")(lambda path: hdf5(path, train=X, test=X[:3, :2]))
case("hdf5: neighbours of other rows", "a.hdf5")(
    lambda path: hdf5(path, train=X, test=Q, neighbors=np.full((3, 5), 10**6))
)
case("hdf5: neighbours below -1", "a.hdf5")(
    lambda path: hdf5(path, train=X, test=Q, neighbors=np.full((3, 5), -7))
)


@case("hdf5: cut short", "a.hdf5")
def _(path: Path) -> None:
    hdf5(path, train=X)
    path.write_bytes(path.read_bytes()[:900])


@case("hdf5: claims 4 TB", "a.hdf5")
def _(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("train", shape=(10**9, 1000), dtype="f4", chunks=(1000, 1000))


@case("hdf5: rows in another file", "a.hdf5")
def _(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("train", (20, 4), "f4", external=[("/etc/passwd", 0, 320)])


@case("hdf5: a link to another file", "a.hdf5")
def _(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["train"] = h5py.ExternalLink("/etc/passwd", "/x")


@case("hdf5: a link to nothing", "a.hdf5")
def _(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["train"] = h5py.SoftLink("/nowhere")


# -- Parquet -------------------------------------------------------------------------------

whole = parquet_bytes()
bytes_case("parquet: empty", "a.parquet", b"")
bytes_case("parquet: ends only", "a.parquet", b"PAR1PAR1")
bytes_case("parquet: cut short", "a.parquet", whole[:-9])
bytes_case("parquet: flipped footer", "a.parquet", whole[:-40] + b"\xff" * 32 + whole[-8:])
bytes_case("parquet: footer of 4 GB", "a.parquet", whole[:-8] + b"\xff\xff\xff\x7fPAR1")
bytes_case("parquet: another format", "a.parquet", GOOD_NPY)
bytes_case("parquet: flipped rows", "a.parquet", b"PAR1" + b"\xff" * 300 + whole[304:])
for name, columns in {
    "no vectors": {"vector": None, "a": [1, 2]},
    "no columns": {"vector": None},
    "vectors of texts": {"vector": pa.array([["a", "b"]] * 20)},
    "uneven": {"vector": pa.array([[1.0, 2.0]] * 19 + [[1.0]])},
    "a null vector": {"vector": pa.array([[1.0, 2.0]] * 19 + [None])},
    "a null component": {"vector": pa.array([[1.0, 2.0]] * 19 + [[1.0, None]])},
    "nan": {"vector": pa.array([[1.0, 2.0]] * 19 + [[1.0, float("nan")]])},
    "no components": {"vector": pa.array([[]] * 20, pa.list_(pa.float32()))},
    "no rows": {"vector": pa.array([], pa.list_(pa.float32()))},
    "nested twice": {"vector": pa.array([[[1.0]]] * 20)},
    "an escape in a column's name": {"\x1b[2J": pa.array(range(ROWS))},
    "a column without a name": {"": pa.array(range(ROWS))},
    "a zero in a column's name": {"a\0b": pa.array(range(ROWS))},
    "a line in a column's name": {"a\nb": pa.array(range(ROWS))},
    "ids twice": {"id": pa.array([1] * ROWS)},
}.items():
    case(f"parquet: {name}", "a.parquet")(lambda path, columns=columns: parquet(path, **columns))
case("parquet: no such column", "a.parquet", (*L2, "--vectors", "w"))(parquet)
case("parquet: no such id", "a.parquet", (*L2, "--id", "w"))(parquet)
case("parquet: no such metadata", "a.parquet", (*L2, "--keep", "w"))(parquet)
case("parquet: two columns of vectors", "a.parquet")(
    lambda path: parquet(path, vector=None, one=list(X), two=list(X))
)


@case("parquet: shards of two kinds", "set")
def _(path: Path) -> None:
    path.mkdir()
    parquet(path / "a.parquet")
    (path / "b.parquet").write_bytes(b"PAR1")


# -- JSON lines ----------------------------------------------------------------------------

for name, content in {
    "empty": b"",
    "blank": b"\n\n\n",
    "no JSON": b"hello\n",
    "cut short": lines({"vector": [1, 2]})[:-5],
    "binary": b"\xff\xfe\x00\n",
    "a list": lines([1, 2, 3]),
    "a number": b"7\n",
    "no vector": lines({"a": 1}),
    "texts": lines({"vector": ["a", "b"]}),
    "empty vector": lines({"vector": []}),
    "uneven": lines({"vector": [1, 2]}, {"vector": [1]}),
    "nan": b'{"vector": [NaN, 1]}\n' * 20,
    "beyond float": b'{"vector": [1e999, 1]}\n' * 20,
    "nested deeply": b'{"vector": ' + b"[" * 3000 + b"]" * 3000 + b"}\n",
    "object as vector": lines({"vector": {"a": 1}}),
    "null": lines({"vector": None}),
    "text twice as long": b'{"vector": "' + b"x" * 100_000 + b'"}\n',
    "an escape in a name": lines(*[{"vector": [float(i), 1], "\x1b[2J": 1} for i in range(20)]),
    "lists of booleans": lines(*[{"vector": [True, False]}] * 20),
}.items():
    bytes_case(f"jsonl: {name}", "a.jsonl", content)

# -- archives ------------------------------------------------------------------------------


def zipped(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def tarred(
    path: Path, members: Sequence[tuple[tarfile.TarInfo, bytes]], mode: str = "w:gz"
) -> None:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


for name, members in {
    "climbing": {"../outside.fvecs": row},
    "absolute": {"/tmp/vectrial-canary": row},
    "backslashes": {"..\\outside.fvecs": row},
    "drive": {"C:/a.fvecs": row},
    "nothing known": {"readme.txt": b"hello"},
    "no members": {},
    "two datasets": {"one.fvecs": row * 20, "two.fvecs": row * 20},
    "two datasets in Parquet": {"words.parquet": whole, "pictures.parquet": whole},
    "two datasets in folders": {"words/a.parquet": whole, "pictures/a.parquet": whole},
    "two formats": {"words.parquet": whole, "pictures.fvecs": row * 20},
    "a bomb": {"a.fvecs": b"\0" * (64 << 20)},
    "an archive": {"inner.zip": b"PK\5\6" + b"\0" * 18},
    "damaged inside": {"a.parquet": b"PAR1"},
}.items():
    case(f"zip: {name}", "a.zip")(lambda path, members=members: zipped(path, members))
bytes_case("zip: cut short", "a.zip", b"PK\3\4" + b"\0" * 100)
bytes_case("zip: an end only", "a.zip", b"PK\5\6" + b"\xff" * 18)


@case("zip: a name twice", "a.zip")
def _(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                archive.writestr(zipfile.ZipInfo("a.fvecs"), row * 20)


@case("zip: a link", "a.zip")
def _(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("a.fvecs")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")


@case("zip: 60,000 empty members", "many.zip")
def _(path: Path) -> None:
    # By hand: the library takes seconds for it.
    begin, listed = bytearray(), bytearray()
    for n in range(60_000):
        name = b"%d.txt" % n
        fields = struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 33, 0, 0, 0, len(name), 0)
        listed += b"PK\1\2\x14\0" + fields + struct.pack("<HHHII", 0, 0, 0, 0, len(begin)) + name
        begin += b"PK\3\4" + fields + name
    end = struct.pack("<HHHHIIH", 0, 0, 60_000, 60_000, len(listed), len(begin), 0)
    path.write_bytes(begin + listed + b"PK\5\6" + end)


for name, info in {
    "climbing": member("../outside.fvecs"),
    "absolute": member("/tmp/vectrial-canary"),
    "a link": member("a.fvecs", tarfile.SYMTYPE, "/etc/passwd"),
    "a hard link": member("a.fvecs", tarfile.LNKTYPE, "/etc/passwd"),
    "a device": member("a.fvecs", tarfile.CHRTYPE),
    "a pipe": member("a.fvecs", tarfile.FIFOTYPE),
    "nothing known": member("readme.txt"),
}.items():
    case(f"tar: {name}", "a.tar.gz")(lambda path, info=info: tarred(path, [(info, b"")]))
bytes_case("tar: cut short", "a.tar.gz", gzip.compress(b"\0" * 10_000)[:-20])
bytes_case("tar: nothing in it", "a.tar.gz", gzip.compress(b""))
bytes_case("tar: packed garbage", "a.tar.gz", gzip.compress(b"hello"))


@case("tar: a bomb", "a.tar.gz")
def _(path: Path) -> None:
    path.write_bytes(gzip.compress(b"\0" * (64 << 20)))


case("tar: two datasets", "a.tar")(
    lambda path: tarred(
        path, [(member("one.fvecs"), row * 20), (member("two.fvecs"), row * 20)], "w"
    )
)

# -- what is no file, and names ------------------------------------------------------------

case("a pipe", "a.npy")(lambda path: os.mkfifo(path))
case("a link to nothing", "a.npy")(lambda path: path.symlink_to("nowhere"))
case("a link to itself", "a.npy")(lambda path: path.symlink_to(path.name))
case("a link to zeros", "a.npy")(lambda path: path.symlink_to("/dev/zero"))
case("an empty folder", "set")(lambda path: path.mkdir())
bytes_case("a pickle", "a.pkl", pickle.dumps([1, 2]))
bytes_case("a table", "a.csv", b"id,embedding\n1,[1 2]\n")
bytes_case("a document", "a.json", b"{}")
bytes_case("no suffix", "vectors", b"\1\2\3\4")


@case("folders within folders", "set")
def _(path: Path) -> None:
    path.joinpath(*["a"] * 60).mkdir(parents=True)


@case("a folder of two files", "set")
def _(path: Path) -> None:
    path.mkdir()
    for one in ("one.npy", "two.npy"):
        (path / one).write_bytes(GOOD_NPY)


for name, given in {
    "no name": "",
    "blank": " ",
    "a slash": "a/b",
    "climbing": "../a",
    "hidden": ".a",
    "an escape": "\x1b[2J",
    "a line": "a\nb",
    "300 letters": "n" * 300,
    "the truth": "truth",
    "of the catalogue": "glove-words-50",
    "a variant of the catalogue's": "glove-words-50-10k",
    "a drawn one": "clustered-16-2k",
}.items():
    bytes_case(f"name: {name}", "a.npy", GOOD_NPY, (*L2, "--name", given))
