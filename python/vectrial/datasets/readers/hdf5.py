"""HDF5 in the layout of ann-benchmarks: train, test, neighbors, distances."""

from __future__ import annotations

from collections.abc import Iterator, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from vectrial.datasets.readers.base import (
    METRIC_NAMES,
    Block,
    ReaderOptions,
    VectorSource,
    check_shape,
    check_side_bytes,
    choose,
    reading,
)
from vectrial.datasets.readers.numpy_files import SideColumns, column_type, with_columns
from vectrial.model.errors import DataError, Unsupported
from vectrial.model.metric import Metric

if TYPE_CHECKING:
    import h5py

_ERRORS = (
    OSError,
    RuntimeError,
    ValueError,
    KeyError,
    TypeError,
    SystemError,
    OverflowError,
    AttributeError,
    NotImplementedError,
    MemoryError,
)
#: A chunk is decompressed as a whole; h5py's own are about 1 MiB.
_MAX_CHUNK_BYTES = 256 << 20
_ROLES = ("test", "neighbors", "distances")


def open_hdf5(path: Path, options: ReaderOptions) -> VectorSource:
    """Open an HDF5 file of dense vectors.

    Attributes missing in old files default as in ann-benchmarks: `type` to dense, and the distance
    to the end of the file's name (`glove-100-angular.hdf5`).

    Raises:
        DataError: it is damaged, or points to other files.
        Unsupported: sparse or bit vectors, Hamming or Jaccard distance.
    """
    import h5py

    with reading(path, *_ERRORS):
        file = h5py.File(path, "r")
        try:
            return _open(path, file, options)
        except BaseException:
            file.close()
            raise


def _open(path: Path, file: h5py.File, options: ReaderOptions) -> VectorSource:
    where = str(path)
    metric = _metric(path, file)
    arrays = {name: file[name] for name in file if _is_array(file, name, where)}
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    name = choose(
        options.vectors,
        matrices if options.vectors else [name for name in matrices if name not in _ROLES],
        usual=("train", "vectors", "embeddings", "data", "base"),
        what="array of vectors",
        where=where,
    )
    vectors = arrays[name]
    claimed, dim = vectors.shape
    check_shape(claimed, dim, where)
    rows = min(options.rows or claimed, claimed)
    sides = {role: arrays[role] for role in ("test", "neighbors") if role in matrices}
    for array in sides.values():
        check_side_bytes(array.nbytes, where)

    def read(step: int) -> Iterator[Block]:
        with reading(path, *_ERRORS):
            for start in range(0, rows, step):
                yield Block(vectors[start : min(start + step, rows)])

    source = VectorSource(
        path,
        "ann-benchmarks HDF5" if name == "train" else "HDF5",
        rows,
        dim,
        str(vectors.dtype),
        read,
        metric=metric,
        queries=sides["test"][:] if "test" in sides else None,
        neighbors=sides["neighbors"][:] if "neighbors" in sides else None,
        notes=() if name == "train" else (f"vectors are the array '{name}'",),
        on_close=(file.close,),
    )
    return with_columns(source, name, _side_columns(file, {name, *_ROLES}, claimed, where), options)


def _side_columns(file: h5py.File, known: Set[str], rows: int, where: str) -> SideColumns:
    """The arrays beside the known ones, as columns if they have a value for each row."""
    kinds: dict[str, pa.DataType] = {}
    others = []
    for name in sorted(set(file) - known):
        kind = _column_type(file, name, rows, where)
        if kind is None:
            others.append(name)
        else:
            kinds[name] = kind

    def read(name: str, start: int, stop: int) -> Any:
        column = file[name]
        with reading(Path(where), *_ERRORS):
            return column.asstr()[start:stop] if kinds[name] == pa.string() else column[start:stop]

    return SideColumns(kinds, read, others)


def _column_type(file: h5py.File, name: str, rows: int, where: str) -> pa.DataType | None:
    """The type of an array that is a column of the rows, or None for anything else."""
    import h5py

    member = file[name] if isinstance(file.get(name, getlink=True), h5py.HardLink) else None
    if not isinstance(member, h5py.Dataset) or member.shape != (rows,):
        return None
    if member.external or member.is_virtual:
        raise DataError("its elements lie in another file", where=f"{where}, '{name}'")
    if h5py.check_string_dtype(member.dtype) is not None:
        return pa.string()
    if member.dtype.kind == "b":
        return pa.bool_()
    return column_type(member.dtype) if _is_array(file, name, where) else None


def _metric(path: Path, file: h5py.File) -> Metric | None:
    kind = _text(file.attrs.get("type", "dense"))
    points = _text(file.attrs.get("point_type", "float"))
    distance = _text(file.attrs.get("distance", path.stem.rpartition("-")[2]))
    if kind == "sparse" or "size_train" in file or distance in ("jaccard", "hamming"):
        found = "sparse" if kind == "sparse" or "size_train" in file else points
        raise Unsupported(
            f"{found} vectors under {distance} distance are not measured here",
            where=str(path),
            remedy="dense vectors under angular, euclidean or ip distance are",
        )
    if "distance" in file.attrs and distance not in METRIC_NAMES:
        raise Unsupported(
            f"distance '{distance}' is not known",
            where=str(path),
            remedy=f"one of {', '.join(METRIC_NAMES)}",
        )
    return METRIC_NAMES.get(distance)


def _text(value: Any) -> str:
    return (value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)).lower()


def _is_array(file: h5py.File, name: str, where: str) -> bool:
    """True if this is an array of real numbers whose elements lie in this very file."""
    import h5py

    place = f"{where}, '{name}'"
    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        raise DataError("it is a link, which may lead to another file", where=place)
    member = file[name]
    if not isinstance(member, h5py.Dataset) or member.dtype.kind not in "fiu":
        return False
    if member.external or member.is_virtual:
        raise DataError("its elements lie in another file", where=place)
    item = member.dtype.itemsize
    claimed, stored = int(np.prod(member.shape, dtype=object)) * item, member.id.get_storage_size()
    # Deflate packs at most 1032 to 1; without compression nothing is missing.
    if claimed > (stored if member.chunks is None else 1100 * max(stored, 1024)):
        raise DataError(
            f"the header claims {claimed} bytes, and {stored} are stored",
            where=place,
            remedy="it is damaged or cut short",
        )
    if member.chunks is not None and int(np.prod(member.chunks, dtype=object)) * item > (
        _MAX_CHUNK_BYTES
    ):
        raise DataError(
            f"chunks of shape {member.chunks} do not fit in memory",
            where=place,
            remedy="write it again with smaller chunks (h5py: chunks=True)",
        )
    return True
