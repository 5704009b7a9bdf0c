"""Vectrial's own datasets: one folder each under `home.datasets_dir()`, known by name.

    <name>/dataset.json     metric, provenance, facts, fingerprint, shapes, sha256 of each part
    <name>/vectors.npy      float32 (n, d)        <name>/ids.npy      int64 (n,)
    <name>/queries.npy      float32 (q, d)        <name>/metadata.arrow   Arrow IPC file, n rows
    <name>/filters.jsonl    one filter, or null, per query

Beside them lies `truth`, the cached ground truth of all of them.

A folder appears under its name only when it is complete. The arrays and the metadata are
memory-mapped on loading, and written block by block, so that neither needs them in memory.
The sha256 of an array is that of its elements (the file after its header), which is known
when the last block is written; that of the other files is of the whole file.
"""

from __future__ import annotations

import errno
import json
import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial import home
from vectrial.datasets.checks import check_ids, check_vectors
from vectrial.datasets.fingerprint import (
    array_digest,
    filters_digest,
    fingerprint,
    metadata_digest,
)
from vectrial.datasets.model import Dataset, Provenance
from vectrial.datasets.parts import (
    ArrayWriter,
    MetadataWriter,
    damaged,
    file_digest,
    open_array,
    open_metadata,
    read_filters,
    write_filters,
)
from vectrial.distance import Metric
from vectrial.errors import DataError, UserError
from vectrial.filters import Filter
from vectrial.nearest import suggestion

_FORMAT = 1
_MANIFEST = "dataset.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_BLOCK_BYTES = 16 << 20


def names() -> tuple[str, ...]:
    """Names of all datasets that are here, in order."""
    root = home.datasets_dir()
    if not root.is_dir():
        return ()
    return tuple(
        sorted(
            folder.name
            for folder in root.iterdir()
            if _NAME.fullmatch(folder.name) and (folder / _MANIFEST).is_file()
        )
    )


def path(name: str) -> Path:
    """The folder of a dataset, whether it exists or not.

    Raises:
        UserError: the name cannot be one.
    """
    if not _NAME.fullmatch(name) or name == "truth":
        raise UserError(
            f"'{name}' cannot be a dataset's name",
            remedy="letters, digits, '.', '_' and '-', first a letter or digit; not 'truth'",
        )
    return home.datasets_dir() / name


def load(name: str) -> Dataset:
    """The dataset of that name, its arrays and metadata memory-mapped.

    Raises:
        UserError: there is none; the message names the nearest one there is.
        DataError: its files do not fit its manifest.
    """
    folder = path(name)
    manifest = _read_manifest(name, folder)
    try:
        return _opened(name, folder, manifest)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(folder / _MANIFEST, f"{type(error).__name__} {error}") from error


def _opened(name: str, folder: Path, manifest: dict[str, Any]) -> Dataset:
    shapes = manifest["shapes"]
    metadata, where = None, None
    if "metadata" in shapes:
        metadata = open_metadata(folder / "metadata.arrow")
        if metadata.num_rows != shapes["metadata"][0]:
            raise damaged(folder / "metadata.arrow", f"{metadata.num_rows} rows")
    if "filters" in shapes:
        where = read_filters(folder / "filters.jsonl")
        if len(where) != shapes["queries"][0]:
            raise damaged(folder / "filters.jsonl", f"{len(where)} filters")
    return Dataset(
        name=name,
        metric=Metric(manifest["metric"]),
        vectors=open_array(folder / "vectors.npy", np.float32, shapes["vectors"]),
        ids=open_array(folder / "ids.npy", np.int64, shapes["ids"]),
        queries=open_array(folder / "queries.npy", np.float32, shapes["queries"]),
        fingerprint=manifest["fingerprint"],
        provenance=_provenance(manifest["provenance"]),
        metadata=metadata,
        filters=where,
        facts=manifest["facts"],
    )


def save(
    name: str,
    *,
    metric: Metric,
    vectors: NDArray[Any] | Iterable[NDArray[Any]],
    queries: NDArray[Any],
    provenance: Provenance,
    ids: NDArray[np.int64] | None = None,
    metadata: pa.Table | None = None,
    filters: Sequence[Filter | None] | None = None,
    facts: dict[str, Any] | None = None,
    replace_existing: bool = False,
) -> Dataset:
    """Write a dataset and load it back; all or nothing.

    Args:
        vectors: (n, d), or an iterator of blocks (rows, d) when they do not fit in memory.
        queries: (q, d).
        ids: n distinct numbers; None numbers the rows from 0.
        metadata: n rows; columns int64, float64, string or bool.
        filters: one per query, None for a query without.
        facts: what is known of it already; not part of the fingerprint.
        replace_existing: overwrite a dataset of that name instead of refusing.

    Raises:
        DataError: vectors that are not finite, zero under cosine or of uneven length, ids that
            repeat, or parts whose lengths do not fit together.
        UserError: the name is taken or cannot be one.
    """
    with Writer(name, metric, provenance, replace_existing=replace_existing) as writer:
        for block in _blocks(vectors) if isinstance(vectors, np.ndarray) else vectors:
            start = writer.rows
            stop = start + len(block)
            writer.add(
                block,
                ids=None if ids is None else ids[start:stop],
                metadata=None if metadata is None else metadata.slice(start, len(block)),
            )
        for what, given in (("ids", ids), ("metadata rows", metadata)):
            if given is not None and len(given) != writer.rows:
                raise DataError(f"{len(given)} {what} for {writer.rows} vectors", where=name)
        return writer.finish(queries, filters=filters, facts=facts)


def annotate(dataset: Dataset, facts: dict[str, Any]) -> Dataset:
    """Replace the stored facts of a saved dataset; its fingerprint stays."""
    folder = path(dataset.name)
    manifest = _read_manifest(dataset.name, folder)
    manifest["facts"] = facts
    _write_json(folder / _MANIFEST, manifest)
    return replace(dataset, facts=facts)


def remove(name: str) -> None:
    """Delete a dataset. Raises UserError when there is none."""
    folder = path(name)
    _read_manifest(name, folder)
    with tempfile.TemporaryDirectory(prefix=".removed-", dir=folder.parent) as grave:
        folder.rename(Path(grave) / name)


def subset(dataset: Dataset, rows: int | None = None, queries: int | None = None) -> Dataset:
    """The first `rows` rows and the first `queries` queries, sharing memory with `dataset`.

    None keeps all. Name and metric stay; the fingerprint is that of the subset saved as a whole;
    facts are dropped, since they were found on all of it. All rows and queries give `dataset`
    itself.

    Raises:
        UserError: more was asked for than there is, or nothing.
    """
    rows = _part(dataset, "rows", rows, dataset.rows)
    queries = _part(dataset, "queries", queries, len(dataset.queries))
    if (rows, queries) == (dataset.rows, len(dataset.queries)):
        return dataset
    part = replace(
        dataset,
        vectors=dataset.vectors[:rows],
        ids=dataset.ids[:rows],
        queries=dataset.queries[:queries],
        metadata=None if dataset.metadata is None else dataset.metadata.slice(0, rows),
        filters=None if dataset.filters is None else dataset.filters[:queries],
        facts={},
    )
    notes = [
        f"the first {count} of {of} {what} of {dataset.name}"
        for what, count, of in (
            ("rows", rows, dataset.rows),
            ("queries", queries, len(dataset.queries)),
        )
        if count < of
    ]
    return replace(
        part,
        fingerprint=_fingerprint(part),
        provenance=replace(dataset.provenance, notes=(*dataset.provenance.notes, *notes)),
    )


def _part(dataset: Dataset, what: str, asked: int | None, of: int) -> int:
    if asked is None:
        return of
    if not 1 <= asked <= of:
        raise UserError(
            f"{asked:,} {what} were asked for of {of:,}",
            where=dataset.name,
            remedy=f"a number from 1 to {of}",
        )
    return asked


def _fingerprint(dataset: Dataset) -> str:
    """What `Writer.finish` would give it."""
    digests = {
        "vectors": array_digest(dataset.vectors),
        "ids": array_digest(dataset.ids),
        "queries": array_digest(dataset.queries),
    }
    if dataset.metadata is not None:
        digests["metadata"] = metadata_digest(dataset.metadata)
    if dataset.filters is not None:
        digests["filters"] = filters_digest(dataset.filters)
    shapes = _shapes(dataset.vectors.shape, dataset.queries, dataset.metadata, dataset.filters)
    return fingerprint(dataset.metric, shapes, digests)


def verify(name: str) -> None:
    """Read every part of a saved dataset. Raises DataError naming one that has changed."""
    dataset, folder = load(name), path(name)
    sums = _read_manifest(name, folder)["sha256"]
    found = {
        "vectors.npy": array_digest(dataset.vectors),
        "ids.npy": array_digest(dataset.ids),
        "queries.npy": array_digest(dataset.queries),
    }
    for file in ("metadata.arrow", "filters.jsonl"):
        if file in sums:
            found[file] = file_digest(folder / file)
    for file, expected in sums.items():
        if found[file] != expected:
            raise damaged(folder / file, f"sha256 {found[file][:16]}…")


class Writer:
    """Writes one dataset block by block; use as a context manager and end with `finish`.

    Without `finish`, or when an error leaves the context, nothing remains.
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

    def __enter__(self) -> Self:
        root = self._final.parent
        root.mkdir(parents=True, exist_ok=True)
        self._temporary = tempfile.TemporaryDirectory(prefix=".writing-", dir=root)
        self._folder = Path(self._temporary.name) / self._name
        self._folder.mkdir()
        self._vectors = ArrayWriter(self._folder / "vectors.npy", np.dtype("<f4"))
        self._ids = ArrayWriter(self._folder / "ids.npy", np.dtype("<i8"))
        self._metadata: MetadataWriter | None = None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._vectors.close()
        self._ids.close()
        if self._metadata is not None:
            self._metadata.close()
        self._temporary.cleanup()

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
        self._metadata.write(metadata)

    def finish(
        self,
        queries: NDArray[Any],
        *,
        filters: Sequence[Filter | None] | None = None,
        facts: dict[str, Any] | None = None,
    ) -> Dataset:
        """Add the queries (q, d), put everything under its name and load it."""
        if self.rows == 0 or self._dim is None:
            raise DataError("there are no vectors", where=self._name)
        questions = check_vectors(
            np.asarray(queries),
            dim=self._dim,
            metric=self._metric,
            first_row=0,
            where=f"{self._name}, queries",
        )
        if filters is not None and len(filters) != len(questions):
            raise DataError(
                f"{len(filters)} filters for {len(questions)} queries", where=self._name
            )
        digests = {"vectors": self._vectors.close(), "ids": self._ids.close()}
        check_ids(np.load(self._folder / "ids.npy", mmap_mode="r"), where=self._name)
        with ArrayWriter(self._folder / "queries.npy", np.dtype("<f4")) as out:
            out.write(questions)
            digests["queries"] = out.close()
        sums = {f"{part}.npy": digest for part, digest in digests.items()}
        shapes = _shapes((self.rows, self._dim), questions, None, filters)
        if self._metadata is not None:
            digests["metadata"] = self._metadata.close()
            shapes["metadata"] = [self.rows, self._metadata.columns]
            sums["metadata.arrow"] = file_digest(self._folder / "metadata.arrow")
        if filters is not None:
            digests["filters"] = filters_digest(filters)
            write_filters(self._folder / "filters.jsonl", filters)
            sums["filters.jsonl"] = file_digest(self._folder / "filters.jsonl")
        manifest = {
            "format": _FORMAT,
            "metric": str(self._metric),
            "provenance": asdict(self._provenance),
            "fingerprint": fingerprint(self._metric, shapes, digests),
            "shapes": shapes,
            "sha256": sums,
            "facts": facts or {},
        }
        _write_json(self._folder / _MANIFEST, manifest)
        self._publish()
        return load(self._name)

    def _publish(self) -> None:
        if self._replace and self._final.exists():
            self._final.rename(Path(self._temporary.name) / ".replaced")
        try:
            self._folder.rename(self._final)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            raise UserError(f"a dataset named '{self._name}' was made in the meantime") from error


def _shapes(
    vectors: tuple[int, ...],
    queries: NDArray[Any],
    metadata: pa.Table | None,
    filters: Sequence[Filter | None] | None,
) -> dict[str, list[int]]:
    shapes = {"vectors": list(vectors), "ids": [vectors[0]], "queries": list(queries.shape)}
    if metadata is not None:
        shapes["metadata"] = list(metadata.shape)
    if filters is not None:
        shapes["filters"] = [len(filters)]
    return shapes


def _blocks(vectors: NDArray[Any]) -> Iterable[NDArray[Any]]:
    row_bytes = max(1, vectors.nbytes // max(1, len(vectors)))
    step = max(1, _BLOCK_BYTES // row_bytes)
    return (vectors[start : start + step] for start in range(0, len(vectors), step))


def _read_manifest(name: str, folder: Path) -> dict[str, Any]:
    file = folder / _MANIFEST
    if not file.is_file():
        raise UserError(
            f"there is no dataset named '{name}' here",
            remedy=f"{suggestion(name, names())}; "
            "`vectrial data list` shows all, `vectrial data fetch NAME` gets one, "
            "`vectrial data import FILE` makes one of your own",
        )
    try:
        manifest: dict[str, Any] = json.loads(file.read_bytes())
    except ValueError as error:
        raise damaged(file, f"not JSON: {error}") from error
    needed = {"format", "metric", "provenance", "fingerprint", "shapes", "sha256", "facts"}
    if not isinstance(manifest, dict) or not needed <= set(manifest):
        raise damaged(file, "fields missing")
    if manifest["format"] != _FORMAT:
        raise DataError(
            f"layout {manifest['format']} is not layout {_FORMAT}, which this version reads",
            where=str(file),
            remedy="fetch or import it again",
        )
    return manifest


def _provenance(value: dict[str, Any]) -> Provenance:
    return Provenance(**{**value, "notes": tuple(value["notes"])})


def _write_json(file: Path, value: Any) -> None:
    partial = file.with_name(file.name + ".part")
    partial.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(file)
