"""The files of a dataset in Vectrial's own layout: written in one pass, opened memory-mapped."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.lib import format as npy
from numpy.typing import NDArray

from vectrial.datasets.library.fingerprint import MetadataDigest
from vectrial.model import filters as algebra
from vectrial.model.errors import DataError
from vectrial.model.filters import Filter

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
        None if value is None else algebra.parse(value, at=f"{file}, line {i + 1}")
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
