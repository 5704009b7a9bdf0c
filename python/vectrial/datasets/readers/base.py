"""The one interface that every file format is read through."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.datasets.checks import check_vectors
from vectrial.model.errors import DataError, UserError
from vectrial.model.filters import Filter
from vectrial.model.metric import Metric
from vectrial.util import paths
from vectrial.util.archive import ArchiveLimits, safe_unpack
from vectrial.util.scratch import ScratchFolder
from vectrial.util.suggest import suggestion

#: No vector has more components; a header that claims more is damaged.
MAX_DIM = 1 << 20
#: What files, and people, call the metrics.
METRIC_NAMES = {
    "angular": Metric.COSINE,
    "cosine": Metric.COSINE,
    "euclidean": Metric.L2,
    "l2": Metric.L2,
    "ip": Metric.IP,
    "dot": Metric.IP,
    "inner_product": Metric.IP,
}
#: Files and folders of an archive.
_MOST_MEMBERS = 10_000
#: Queries and their neighbours are held in memory; published sets need a tenth of this.
MAX_SIDE_BYTES = 2 << 30
#: Compression makes vectors of real data 1 to 20 times smaller.
_MOST_GROWTH = 100
#: Vectors of fewer bytes are read however small their file is.
_SMALL_BYTES = 1 << 30
#: Vectors of about this many bytes, as float32, are in memory at a time.
BLOCK_BYTES = 8 << 20


@dataclass(frozen=True)
class ReaderOptions:
    """Choices that a file leaves to its reader.

    vectors: column, key or array that holds the vectors; None finds the only one.
    ids: column or key with the ids; None takes an integer `id`, else numbers the rows, as "none"
        does. Ids that are not numbers from 0 to 2^63 - 1 are kept as metadata.
    keep: metadata columns to keep; None keeps all that can be stored.
    rows: read only this many first rows. Also reads a cropped file whose header claims more.
    conditions: False leaves out the filters that come with the queries.
    """

    vectors: str | None = None
    ids: str | None = None
    keep: tuple[str, ...] | None = None
    rows: int | None = None
    conditions: bool = True


@dataclass(frozen=True)
class Block:
    """Consecutive rows: vectors (r, d), ids (r,) or None, metadata of r rows or None."""

    vectors: NDArray[Any]
    ids: NDArray[np.int64] | None = None
    metadata: pa.Table | None = None


@dataclass(frozen=True)
class VectorSource:
    """An opened file or folder of vectors; a context manager, to be closed after use.

    path, format: what was opened, and its detected format.
    rows, dim, dtype: n, d and the components' type in the file.
    read: raw blocks of at most the given number of rows, in order; see `blocks`.
    metric: the metric that the file states, or None.
    queries: float32 (q, d); neighbors: int64 (q, k) ids of their nearest rows as published, -1 for
        missing ones; filters: one or None per query. None if the source brings none.
    columns: names of the metadata columns.
    has_ids: whether the blocks carry ids. labels: the metadata column that holds the user's own
        ids, if rows are numbered instead.
    notes: decisions and omissions to be shown, a sentence each.
    """

    path: Path
    format: str
    rows: int
    dim: int
    dtype: str
    read: Callable[[int], Iterator[Block]]
    metric: Metric | None = None
    queries: NDArray[np.float32] | None = None
    neighbors: NDArray[np.int64] | None = None
    filters: tuple[Filter | None, ...] | None = None
    columns: tuple[str, ...] = ()
    has_ids: bool = False
    labels: str | None = None
    notes: tuple[str, ...] = ()
    on_close: tuple[Callable[[], Any], ...] = field(default=(), repr=False)

    def blocks(self, rows: int = BLOCK_BYTES, *, metric: Metric | None = None) -> Iterator[Block]:
        """All rows in order, checked, vectors as C-contiguous float32.

        Args:
            rows: most rows in a block; fewer if they would take more than `BLOCK_BYTES`.
            metric: under cosine, zero vectors are refused.

        Raises:
            DataError: naming the row, counted from 0, that cannot be used.
        """
        at = 0
        for block in self.read(max(1, min(rows, BLOCK_BYTES // (4 * self.dim)))):
            vectors = check_vectors(
                block.vectors, dim=self.dim, metric=metric, first_row=at, where=str(self.path)
            )
            at += len(vectors)
            yield Block(vectors, block.ids, block.metadata)
        if at != self.rows:
            raise DataError(
                f"{at} rows were found where {self.rows} were promised",
                where=str(self.path),
                remedy="it is damaged or cut short",
            )

    def close(self) -> None:
        """Close files and remove temporary folders. Blocks read before stay valid."""
        for action in self.on_close:
            action()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_shape(rows: int, dim: int, where: str) -> None:
    """Raise DataError if a header claims no rows, or an impossible number of components."""
    if not 1 <= dim <= MAX_DIM:
        raise DataError(
            f"the header claims {dim} components a vector",
            where=where,
            remedy=f"1 to {MAX_DIM} are possible; it is damaged or of another format",
        )
    if rows < 1:
        raise DataError("it holds no vectors", where=where)


def check_side_bytes(size: int, where: str) -> None:
    """Raise DataError if data held in memory as a whole, such as queries, is too large."""
    if size > MAX_SIDE_BYTES:
        raise DataError(
            f"it claims {size} bytes of queries, neighbours or labels",
            where=where,
            remedy=f"up to {MAX_SIDE_BYTES} are read; it is damaged",
        )


def check_growth(path: Path, size: int, options: ReaderOptions) -> None:
    """Raise DataError if a file's vectors are far larger than the file, unless `options.rows` says
    how many are expected.

    Args:
        path: the file, or the folder of the files.
        size: bytes of its vectors once they are read.
    """
    if options.rows is not None or size <= _SMALL_BYTES:
        return
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    packed = sum(file.stat().st_size for file in files)
    if size > _MOST_GROWTH * packed:
        raise DataError(
            f"its {packed / 1e6:,.1f} MB hold {size / 1e9:,.1f} GB of vectors: nearly all of them"
            " are repeats, or the file is damaged",
            where=str(path),
            remedy="if you expect that, `vectrial data import --rows N` says how many to read",
        )


def rows_that_fit(
    claimed: int, row_bytes: int, available: int, options: ReaderOptions, where: str
) -> int:
    """The number of rows to read from a file whose header claims `claimed` of `row_bytes` each.

    A cropped file, with fewer rows than claimed, is read if `options.rows` asks for it.

    Raises:
        DataError: the bytes that follow the header are not what it claims.
    """
    requested = claimed if options.rows is None else min(options.rows, claimed)
    if claimed * row_bytes == available or (
        options.rows is not None and requested * row_bytes <= available < claimed * row_bytes
    ):
        return requested
    whole = available // row_bytes
    if available < claimed * row_bytes:
        raise DataError(
            f"the header claims {claimed} rows of {row_bytes} bytes, and {available} bytes follow",
            where=where,
            remedy=f"it is cut short; `--rows {whole}` reads what is there"
            if whole
            else "it is damaged, or of another format",
        )
    raise DataError(
        f"{available - claimed * row_bytes} bytes follow the {claimed} rows that were claimed",
        where=where,
        remedy="it is damaged, or of another format",
    )


def array_blocks(array: NDArray[Any], rows: int) -> Iterator[Block]:
    """Blocks of the rows of an array, which may be memory-mapped."""
    for start in range(0, len(array), rows):
        yield Block(array[start : start + rows])


def joined(path: Path, parts: Sequence[VectorSource], options: ReaderOptions) -> VectorSource:
    """Files of vectors joined into one source, in the order given.

    Raises:
        DataError: they have different numbers of components.
    """
    first = parts[0]
    for part in parts:
        if part.dim != first.dim:
            raise DataError(
                f"a vector has {part.dim} components where {first.path.name} has {first.dim}",
                where=str(part.path),
                remedy="name one of the files",
            )
    claimed = sum(part.rows for part in parts)
    rows = min(options.rows or claimed, claimed)

    def read(step: int) -> Iterator[Block]:
        left = rows
        for part in parts:
            for block in part.read(min(step, max(left, 1))):
                if left <= 0:
                    return
                kept = block.metadata and block.metadata.slice(0, left)
                ids = None if block.ids is None else block.ids[:left]
                yield Block(block.vectors[:left], ids, kept)
                left -= len(block.vectors)

    closing = tuple(action for part in parts for action in part.on_close)
    form = f"{first.format}, {len(parts)} files"
    return replace(first, path=path, format=form, rows=rows, read=read, on_close=closing)


@contextmanager
def unpacked(
    path: Path, *, ratio: float = ArchiveLimits.ratio
) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A temporary folder with the content of an archive, and the function that removes it; if the
    block raises, it is removed at once.

    Raises:
        DataError: see `safe_unpack`, of which `ratio` is a limit.
    """
    root = paths.downloads_dir()
    root.mkdir(parents=True, exist_ok=True)
    scratch = ScratchFolder(".opened-", root)
    try:
        content = scratch.path / "content"
        safe_unpack(path, content, limits=ArchiveLimits(members=_MOST_MEMBERS, ratio=ratio))
        yield content, scratch.remove
    except BaseException:
        scratch.remove()
        raise


@contextmanager
def reading(path: Path, *kinds: type[Exception]) -> Iterator[None]:
    """Turn a library's error about a file's content into one clear `DataError`.

    An error of the system itself, such as a missing file, is reported unchanged.
    """
    caught: tuple[type[Exception], ...] = (OSError, *kinds)
    try:
        yield
    except DataError:
        raise
    except caught as error:
        system = isinstance(error, OSError)
        if isinstance(error, OSError) and error.errno is None and OSError not in kinds:
            raise
        text = str(error).strip() or type(error).__name__
        raise DataError(
            f"it cannot be read: {text.splitlines()[0][:300]}",
            where=str(path),
            remedy=f"it is damaged, or {'not open to you' if system else 'of another format'}",
        ) from error


def choose(
    requested: str | None, candidates: Sequence[str], *, usual: Sequence[str], what: str, where: str
) -> str:
    """The one of `candidates` that is requested, is the only one, or has a usual name.

    Raises:
        UserError: none or several would do; names the nearest and all there are.
    """
    listed = ", ".join(f"'{name}'" for name in candidates[:20]) or "none"
    if requested is not None:
        if requested in candidates:
            return requested
        raise UserError(
            f"'{requested}' is no {what}", where=where, remedy=suggestion(requested, candidates)
        )
    if len(candidates) == 1:
        return candidates[0]
    known = [name for name in usual if name in candidates]
    if len(known) == 1:
        return known[0]
    if not candidates:
        raise DataError(f"there is no {what}", where=where)
    raise UserError(
        f"there is more than one {what}", where=where, remedy=f"choose with `--vectors`: {listed}"
    )
