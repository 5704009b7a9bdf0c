"""Writes a dataset block by block: all or nothing.

A folder appears under its name only when it is complete. Neither the vectors nor the metadata need
to be in memory, and the digests are known when the last block is written.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.datasets.checks import check_ids, check_vectors, without_nan
from vectrial.datasets.library.parts import (
    ArrayWriter,
    MetadataWriter,
    filters_digest,
    fingerprint,
    write_filters,
    write_metadata,
)
from vectrial.datasets.library.stored import FORMAT, load, load_from, path, write_manifest
from vectrial.model.dataset import Dataset, Provenance
from vectrial.model.errors import DataError, UserError
from vectrial.model.filters import Filter
from vectrial.model.metric import Metric
from vectrial.util import formatting
from vectrial.util.checksum import sha256_of
from vectrial.util.scratch import ScratchFolder


class Writer:
    """Writes one dataset block by block; use as a context manager and end with `finish`.

    Without `finish`, or if an error leaves the context, nothing remains.
    """

    def __init__(
        self, name: str, metric: Metric, provenance: Provenance, *, replace_existing: bool = False
    ) -> None:
        self._final = path(name)
        self._replace = replace_existing
        if self._final.exists() and not replace_existing:
            raise UserError(
                f"a dataset named '{name}' exists already",
                remedy=f"choose another name, or replace it; it lies in {self._final}",
            )
        self._name, self._metric, self._provenance = name, metric, provenance
        self.rows = 0
        self._dim: int | None = None
        self._not_numbers = Counter[str]()

    def __enter__(self) -> Self:
        root = self._final.parent
        root.mkdir(parents=True, exist_ok=True)
        self._scratch = ScratchFolder(".writing-", root)
        self._folder = self._scratch.path / self._name
        self._folder.mkdir()
        self._vectors = ArrayWriter(self._folder / "vectors.npy", np.dtype("<f4"))
        self._ids = ArrayWriter(self._folder / "ids.npy", np.dtype("<i8"))
        self._metadata: MetadataWriter | None = None
        return self

    def __exit__(self, *_: object) -> None:
        self._vectors.close()
        self._ids.close()
        if self._metadata is not None:
            self._metadata.close()
        self._scratch.remove()

    def add(
        self,
        vectors: NDArray[Any],
        *,
        ids: NDArray[np.int64] | None = None,
        metadata: pa.Table | None = None,
    ) -> None:
        """Append rows: vectors (rows, d), their ids (None continues the numbering) and metadata.

        Raises:
            DataError: naming the row, counted over all blocks, that cannot be used.
        """
        block = check_vectors(
            vectors, dim=self._dim, metric=self._metric, first_row=self.rows, where=self._name
        )
        count = len(block)
        if ids is None:
            ids = np.arange(self.rows, self.rows + count, dtype=np.int64)
        if len(ids) != count or ids.dtype.kind not in "iu":
            raise DataError(f"{len(ids)} ids ({ids.dtype}) for {count} vectors", where=self._name)
        self._add_metadata(metadata, count)
        self._vectors.write(block)
        self._ids.write(ids)
        self._dim = block.shape[1]
        self.rows += count

    def _add_metadata(self, metadata: pa.Table | None, count: int) -> None:
        if self.rows and (metadata is None) != (self._metadata is None):
            raise DataError("only some of the rows have metadata", where=self._name)
        if metadata is None:
            return
        if metadata.num_rows != count:
            raise DataError(
                f"{metadata.num_rows} metadata rows for {count} vectors", where=self._name
            )
        if self._metadata is None:
            self._metadata = MetadataWriter(self._folder / "metadata.arrow", metadata.schema)
        metadata, counts = without_nan(metadata)
        self._not_numbers.update(counts)
        self._metadata.write(metadata)

    def _documented(self) -> Provenance:
        """The provenance, with notes on changed values."""
        notes = [
            f"{formatting.plural(count, 'value')} of '{name}' {'is' if count == 1 else 'are'} not a"
            " number (NaN), kept as missing"
            for name, count in self._not_numbers.items()
        ]
        return replace(self._provenance, notes=(*self._provenance.notes, *notes))

    def finish(
        self,
        queries: NDArray[Any],
        *,
        filters: Sequence[Filter | None] | None = None,
        query_metadata: pa.Table | None = None,
        facts: dict[str, Any] | None = None,
        find: Callable[[Dataset], dict[str, Any]] | None = None,
    ) -> Dataset:
        """Add the queries (q, d) and their filters and metadata, put everything under its name and
        load it.

        find: finds more facts of the whole dataset, before it has its name: if that fails, or is
            interrupted, nothing remains, and a dataset to be replaced is still there.
        """
        if self.rows == 0 or self._dim is None:
            raise DataError("there are no vectors", where=self._name)
        questions = check_vectors(
            np.asarray(queries),
            dim=self._dim,
            metric=self._metric,
            first_row=0,
            where=f"{self._name}, queries",
        )
        for what, part in (("filters", filters), ("rows of query metadata", query_metadata)):
            if part is not None and len(part) != len(questions):
                raise DataError(
                    f"{len(part)} {what} for {len(questions)} queries", where=self._name
                )
        digests = {"vectors": self._vectors.close(), "ids": self._ids.close()}
        check_ids(np.load(self._folder / "ids.npy", mmap_mode="r"), where=self._name)
        with ArrayWriter(self._folder / "queries.npy", np.dtype("<f4")) as out:
            out.write(questions)
            digests["queries"] = out.close()
        arrays = [f"{part}.npy" for part in digests]
        shapes = shapes_of((self.rows, self._dim), questions, None, filters, query_metadata)
        if self._metadata is not None:
            digests["metadata"] = self._metadata.close()
            shapes["metadata"] = [self.rows, self._metadata.columns]
        if filters is not None:
            digests["filters"] = filters_digest(filters)
            write_filters(self._folder / "filters.jsonl", filters)
        if query_metadata is not None:
            file = self._folder / "query_metadata.arrow"
            digests["query_metadata"] = write_metadata(file, query_metadata)
        sums = dict(zip(arrays, digests.values(), strict=False))
        others = [file for file in self._folder.iterdir() if file.name not in arrays]
        sums |= {file.name: sha256_of(file) for file in sorted(others)}
        manifest = {
            "format": FORMAT,
            "metric": str(self._metric),
            "provenance": asdict(self._documented()),
            "fingerprint": fingerprint(self._metric, shapes, digests),
            "shapes": shapes,
            "sha256": sums,
            "facts": facts or {},
        }
        write_manifest(self._folder, manifest)
        if find is not None:
            found = find(load_from(self._folder, self._name))
            write_manifest(self._folder, {**manifest, "facts": {**(facts or {}), **found}})
        self._publish()
        return load(self._name)

    def _publish(self) -> None:
        if self._replace and self._final.exists():
            self._final.rename(self._scratch.path / ".replaced")
        try:
            self._folder.rename(self._final)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            raise UserError(f"a dataset named '{self._name}' was made in the meantime") from error


def shapes_of(
    vectors: tuple[int, ...],
    queries: NDArray[Any],
    metadata: pa.Table | None,
    filters: Sequence[Filter | None] | None,
    query_metadata: pa.Table | None,
) -> dict[str, list[int]]:
    """The shape of every part that exists, as a manifest keeps it."""
    shapes = {"vectors": list(vectors), "ids": [vectors[0]], "queries": list(queries.shape)}
    if metadata is not None:
        shapes["metadata"] = list(metadata.shape)
    if filters is not None:
        shapes["filters"] = [len(filters)]
    if query_metadata is not None:
        shapes["query_metadata"] = list(query_metadata.shape)
    return shapes
