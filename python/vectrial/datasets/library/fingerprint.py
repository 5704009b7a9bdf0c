"""The hash of a dataset's content, independent of how its files are chunked or named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

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
