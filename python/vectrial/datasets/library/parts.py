"""The parts of a dataset in Vectrial's own layout: their files, written in one pass and opened
memory-mapped, and the hash of their content, independent of how files are chunked or named."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.lib import format as npy
from numpy.typing import NDArray

from vectrial.model import filters as algebra
from vectrial.model.errors import DataError
from vectrial.model.filters import Filter, to_json
from vectrial.model.metric import Metric

_BLOCK_BYTES = 16 << 20


def slices_of(array: NDArray[Any], block_bytes: int = _BLOCK_BYTES) -> Iterator[slice]:
    """All rows of an array, in slices of at most so many bytes."""
    step = max(1, block_bytes // max(1, array.nbytes // max(1, len(array))))
    return (slice(start, start + step) for start in range(0, len(array), step))


def array_digest(array: NDArray[Any]) -> str:
    """sha256 of an array's bytes in C order; a memory-mapped array is read block by block."""
    digest = hashlib.sha256()
    for rows in slices_of(array):
        digest.update(np.ascontiguousarray(array[rows]).data)
    return digest.hexdigest()


class MetadataDigest:
    """sha256 of metadata columns, fed in pieces; where the pieces are cut does not matter.

    Per column three streams are hashed: which rows have a value, the lengths (text only), and
    the values with nulls replaced, so that bytes under a null never count.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._streams = [(hashlib.sha256(), hashlib.sha256(), hashlib.sha256()) for _ in schema]

    def update(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Hash the next rows; types as in `Dataset.metadata`."""
        columns: list[Any] = list(batch.columns)  # the stubs know them as neither kind
        for (valid, lengths, values), column in zip(self._streams, columns, strict=True):
            chunk: Any
            for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
                valid.update(_bytes(chunk.is_valid().cast(pa.uint8())))
                if pa.types.is_string(chunk.type):
                    texts = [text.encode() for text in chunk.fill_null("").to_pylist()]
                    lengths.update(np.fromiter(map(len, texts), np.int32, len(texts)).data)
                    values.update(b"".join(texts))
                elif pa.types.is_boolean(chunk.type):
                    values.update(_bytes(chunk.fill_null(False).cast(pa.uint8())))
                else:
                    values.update(_bytes(chunk.fill_null(0)))

    def hexdigest(self) -> str:
        """The digest of everything hashed so far, with column names and types."""
        columns = [
            [field.name, str(field.type), *(stream.hexdigest() for stream in streams)]
            for field, streams in zip(self._schema, self._streams, strict=True)
        ]
        return _of_json(columns)


def _bytes(array: pa.Array[Any]) -> memoryview:
    return np.ascontiguousarray(array.to_numpy(zero_copy_only=False)).data


def metadata_digest(metadata: pa.Table) -> str:
    """Digest of a whole table; see `MetadataDigest`."""
    digest = MetadataDigest(metadata.schema)
    for batch in metadata.to_batches():
        digest.update(batch)
    return digest.hexdigest()


def filters_digest(filters: Sequence[Filter | None]) -> str:
    """Digest of one filter per query, in canonical form."""
    return _of_json([None if where is None else to_json(where) for where in filters])


def fingerprint(
    metric: Metric, shapes: Mapping[str, Sequence[int]], digests: Mapping[str, str]
) -> str:
    """The dataset's fingerprint from the shapes and digests of its parts.

    digests: digests of vectors, ids and queries, and of metadata, filters and query metadata if
        there are any.
    """
    return _of_json(
        {
            "metric": str(metric),
            "shapes": {name: list(shape) for name, shape in shapes.items()},
            "digests": dict(digests),
        }
    )


def _of_json(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


#: What a metadata column may be.
METADATA_TYPES = (pa.int64(), pa.float64(), pa.string(), pa.bool_())


class ArrayWriter:
    """An .npy file of rows whose number is known only at the end; hashes as it writes."""

    def __init__(self, file: Path, dtype: np.dtype[Any]) -> None:
        self._file = file.open("w+b")
        self._dtype, self._digest, self._tail = dtype, hashlib.sha256(), ()
        self._rows = 0
        self._header_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, block: NDArray[Any]) -> None:
        """Append rows; all blocks have the same row shape."""
        block = np.ascontiguousarray(block, dtype=self._dtype)
        if not self._header_bytes:
            self._tail = block.shape[1:]
            self._header_bytes = self._file.write(self._header())
        self._file.write(block.data)
        self._digest.update(block.data)
        self._rows += len(block)

    def _header(self) -> bytes:
        # numpy pads the header so that the row count can grow in place.
        out = io.BytesIO()
        header = {
            "descr": npy.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self._rows, *self._tail),
        }
        npy.write_array_header_1_0(out, header)
        return out.getvalue()

    def close(self) -> str:
        """The sha256 of the elements written."""
        if not self._file.closed:
            header = self._header()
            if self._header_bytes not in (0, len(header)):
                raise AssertionError("the npy header changed its length")
            self._file.seek(0)
            self._file.write(header)
            self._file.close()
        return self._digest.hexdigest()


class MetadataWriter:
    """An Arrow IPC file of metadata rows; hashes their content as it writes."""

    def __init__(self, file: Path, schema: pa.Schema) -> None:
        for field in schema:
            if field.type not in METADATA_TYPES:
                raise DataError(
                    f"metadata column '{field.name}' is {field.type}",
                    remedy="int64, float64, string and bool can be stored",
                )
        self._schema = pa.schema([pa.field(field.name, field.type) for field in schema])
        self.columns = len(schema)
        self._digest = MetadataDigest(self._schema)
        self._file = pa.OSFile(str(file), "wb")
        self._writer = pa.ipc.new_file(self._file, self._schema)

    def write(self, table: pa.Table) -> None:
        """Append rows; all blocks have the same columns."""
        if table.schema.names != self._schema.names or table.schema.types != self._schema.types:
            raise DataError("the metadata columns change from one block to the next")
        table = table.replace_schema_metadata(None).cast(self._schema)
        for batch in table.to_batches():
            self._writer.write_batch(batch)
            self._digest.update(batch)

    def close(self) -> str:
        """The digest of the rows written."""
        if not self._file.closed:
            self._writer.close()
            self._file.close()
        return self._digest.hexdigest()


def open_array(file: Path, dtype: type[np.generic], shape: Sequence[int]) -> NDArray[Any]:
    """A memory-mapped array of exactly this type and shape. Raises DataError if it is not."""
    try:
        # np.asarray drops the memmap subclass, whose slices cost more; the mapping stays.
        array = np.asarray(np.load(file, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError) as error:
        raise damaged(file, str(error)) from error
    if array.dtype != dtype or list(array.shape) != list(shape):
        raise damaged(file, f"{array.dtype} {array.shape} instead of {tuple(shape)}")
    return array


def open_metadata(file: Path) -> pa.Table:
    """A memory-mapped table. Raises DataError if it is damaged."""
    try:
        with pa.memory_map(str(file)) as mapped:
            return pa.ipc.open_file(mapped).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise damaged(file, str(error)) from error


def write_metadata(file: Path, table: pa.Table) -> str:
    """Write a whole table at once; returns the digest of its content."""
    writer = MetadataWriter(file, table.schema)
    try:
        writer.write(table)
    finally:
        digest = writer.close()
    return digest


def read_filters(file: Path) -> tuple[Filter | None, ...]:
    """The filters that `write_filters` wrote. Raises DataError if the file is damaged."""
    try:
        values = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise damaged(file, str(error)) from error
    return tuple(
        None if value is None else algebra.parse(value, path=f"{file}, line {i + 1}")
        for i, value in enumerate(values)
    )


def write_filters(file: Path, filters: Sequence[Filter | None]) -> None:
    """Write one filter, or null, per line."""
    lines = ["null" if where is None else algebra.to_json(where) for where in filters]
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def damaged(file: Path, found: str) -> DataError:
    """The error for a stored part that differs from its manifest."""
    return DataError(
        f"the stored dataset is damaged: {found}",
        where=str(file),
        remedy=f"delete {file.parent} and fetch or import it again",
    )
