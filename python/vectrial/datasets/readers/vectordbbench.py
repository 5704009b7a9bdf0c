"""VectorDBBench's folders: train, test, neighbors and scalar labels as Parquet files.

train.parquet, or train-00-of-10.parquet … (shuffle_train… where only those are there): id, emb
test.parquet: id, emb        neighbors.parquet: id, neighbors_id
scalar_labels.parquet: id, labels (the label of the row with that id)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.datasets.readers.base import (
    BLOCK_BYTES,
    Block,
    ReaderOptions,
    VectorSource,
    check_side_bytes,
    reading,
)
from vectrial.datasets.readers.columns import ids_of
from vectrial.datasets.readers.layout import natural
from vectrial.datasets.readers.parquet import ARROW_ERRORS, batches, open_file, open_files
from vectrial.model.errors import DataError


def is_vectordbbench(folder: Path) -> bool:
    """True if the folder has this layout."""
    return bool(_train_files(folder)) and (folder / "test.parquet").is_file()


def open_vectordbbench(folder: Path, options: ReaderOptions) -> VectorSource:
    """Open a folder of this layout; `id` is also a metadata column, since its filters are over ids.

    Raises:
        DataError: a file is damaged, or labels or neighbours do not fit the vectors.
    """
    keep = options.keep
    of_train = replace(
        options, keep=keep and tuple(name for name in keep if name not in ("id", "labels"))
    )
    source = open_files(folder, _train_files(folder), of_train, "VectorDBBench")
    test = folder / "test.parquet"
    tests = open_files(test, (test,), ReaderOptions(vectors=options.vectors, keep=()), "parquet")
    check_side_bytes(tests.rows * tests.dim * 4, str(tests.path))
    with tests:
        queries = np.concatenate([block.vectors for block in tests.blocks()])
    labels = _labels(folder / "scalar_labels.parquet")
    columns = [name for name in source.columns if name not in ("id", "labels")]
    columns += ["id"] if source.has_ids else []
    columns += ["labels"] if labels is not None else []
    columns = columns if keep is None else [name for name in columns if name in keep]

    def read(step: int) -> Iterator[Block]:
        at = 0
        for block in source.read(step):
            ids = block.ids
            if ids is None:
                ids = np.arange(at, at + len(block.vectors), dtype=np.int64)
            yield Block(block.vectors, block.ids, _metadata(block, ids, columns, labels, folder))
            at += len(block.vectors)

    return replace(
        source,
        read=read,
        queries=queries,
        neighbors=_neighbors(folder / "neighbors.parquet", len(queries)),
        columns=tuple(columns),
    )


def _metadata(
    block: Block,
    ids: NDArray[np.int64],
    columns: list[str],
    labels: pa.ChunkedArray[Any] | None,
    folder: Path,
) -> pa.Table | None:
    arrays: dict[str, Any] = {}
    for name in columns:
        if name == "id":
            arrays[name] = pa.array(ids)
        elif name == "labels" and labels is not None:
            outside = np.flatnonzero((ids < 0) | (ids >= len(labels)))
            if outside.size:
                raise DataError(
                    f"id {ids[outside[0]]} has no label; there are {len(labels)}",
                    where=str(folder / "scalar_labels.parquet"),
                )
            arrays[name] = labels.take(ids)
        elif block.metadata is not None:
            arrays[name] = block.metadata.column(name)
    return pa.table(arrays) if arrays else None


def _train_files(folder: Path) -> list[Path]:
    for pattern in (
        "train.parquet",
        "train-*-of-*.parquet",
        "shuffle_train.parquet",
        "shuffle_train-*-of-*.parquet",
    ):
        if files := sorted(folder.glob(pattern), key=lambda file: natural(file.name)):
            return files
    return []


def _labels(file: Path) -> pa.ChunkedArray[Any] | None:
    """The label of every id, in the order of ids; None if there is no such file."""
    if not file.is_file():
        return None
    table = _small_table(file, ["id", "labels"])
    ids = ids_of(table.column("id").combine_chunks(), "id", 0, str(file))
    order = np.argsort(ids, kind="stable")
    if not np.array_equal(ids[order], np.arange(len(ids))):
        raise DataError("ids are not 0, 1, 2, …, each once", where=str(file))
    labels: Any = table.column("labels")
    try:
        return pa.chunked_array([labels.cast(pa.string()).combine_chunks().take(order)])
    except pa.ArrowException as error:
        raise DataError(f"labels are {labels.type}, not text", where=str(file)) from error


def _neighbors(file: Path, queries: int) -> NDArray[np.int64] | None:
    if not file.is_file():
        return None
    lists: Any = _small_table(file, ["neighbors_id"]).column("neighbors_id").combine_chunks()
    if len(lists) != queries:
        raise DataError(f"{len(lists)} lists for {queries} queries", where=str(file))
    with reading(file, *ARROW_ERRORS, AttributeError):
        import pyarrow.compute as pc  # here: loading it takes a while

        lengths = pc.list_value_length(lists).fill_null(0).to_numpy()
        flat = lists.flatten().cast(pa.int64()).fill_null(-1).to_numpy()
    out = np.full((queries, int(lengths.max(initial=0))), -1, np.int64)
    out[np.arange(out.shape[1]) < lengths[:, None]] = flat
    return out


def _small_table(file: Path, columns: list[str]) -> pa.Table:
    parquet = open_file(file)
    missing = [name for name in columns if name not in parquet.schema_arrow.names]
    if missing:
        raise DataError(f"there is no column '{missing[0]}'", where=str(file))
    read, size = [], 0
    for batch in batches(file, parquet, columns, BLOCK_BYTES // 4096):
        read.append(batch)
        size += batch.nbytes
        check_side_bytes(size, str(file))
    parquet.close()
    return pa.Table.from_batches(
        read, schema=parquet.schema_arrow.empty_table().select(columns).schema
    )
