"""The ground truth of a dataset: from the cache, or computed by `vectrial.datasets.exact`."""

from __future__ import annotations

import hashlib
import json
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial.datasets.exact import Scanner, exact_topk, exact_topk_filtered, scan_here
from vectrial.model import filters
from vectrial.model.dataset import Dataset, Truth
from vectrial.model.errors import UserError
from vectrial.model.filters import Filter
from vectrial.model.progress import Progress
from vectrial.util import paths

#: Raised when the answer to the same question would come out differently.
_VERSION = 2


def truth_of(
    dataset: Dataset,
    k: int,
    where: Filter | Sequence[Filter | None] | None = None,
    *,
    rows: int | None = None,
    progress: Progress | None = None,
    scanner: Scanner = scan_here,
) -> Truth:
    """The truth of a dataset's queries, from the cache if it was computed before.

    Args:
        where: one filter for all queries, one for each (see `dataset.filters`), or None.
        rows: count only the dataset's first rows.
        scanner: scans the rows, here or elsewhere; the truth is the same.

    Raises:
        UserError: a filter reads a column that does not exist, or rows is out of range.
        DataError: see `exact_topk`.
    """
    rows = dataset.rows if rows is None else rows
    if not 0 <= rows <= dataset.rows:
        raise UserError(f"{rows} rows of a dataset that has {dataset.rows}", where=dataset.name)
    every: Sequence[Filter | None]
    every = where if isinstance(where, Sequence) else [where] * len(dataset.queries)
    if len(every) != len(dataset.queries):
        raise UserError(f"{len(every)} filters for {len(dataset.queries)} queries")
    texts = [None if one is None else filters.to_json(one) for one in every]
    if len(set(texts)) == 1:
        texts = texts[:1]
    key = json.dumps([_VERSION, dataset.fingerprint, k, rows, texts])
    name = hashlib.sha256(key.encode()).hexdigest()[:32]
    path = _folder() / f"{_prefix(dataset.fingerprint)}{name}.npz"
    cached = _read(path, key, k)
    if cached is not None:
        return cached
    truth = _computed(dataset, k, every, rows, progress, scanner)
    _write(path, key, truth)
    return truth


def _computed(
    dataset: Dataset,
    k: int,
    every: Sequence[Filter | None],
    rows: int,
    progress: Progress | None,
    scanner: Scanner,
) -> Truth:
    vectors, ids = dataset.vectors[:rows], dataset.ids[:rows]
    # By text, since Eq("a", 1) == Eq("a", True) in Python.
    distinct = {filters.to_json(one): one for one in every if one is not None}
    if distinct and dataset.metadata is None:
        raise UserError("a filter needs metadata, and the dataset has none", where=dataset.name)
    metadata = None if dataset.metadata is None else dataset.metadata.slice(0, rows)

    def mask(where: Filter) -> NDArray[np.bool_]:
        assert metadata is not None
        return filters.evaluate(where, metadata)

    ask = (vectors, ids, dataset.queries, dataset.metric, k)
    if not distinct:
        return exact_topk(*ask, progress=progress, scanner=scanner)
    if len(distinct) == 1 and None not in every:
        (only,) = distinct.values()
        return exact_topk(*ask, mask=mask(only), progress=progress, scanner=scanner)
    number = {text: i for i, text in enumerate(distinct)}
    group = [-1 if one is None else number[filters.to_json(one)] for one in every]
    masks = [partial(mask, where) for where in distinct.values()]
    return exact_topk_filtered(
        *ask, masks, np.array(group, dtype=np.int64), progress=progress, scanner=scanner
    )


# -- the cache -------------------------------------------------------------------------------


def files_of(fingerprint: str) -> dict[str, Path]:
    """The files of all cached truths of a dataset, by name."""
    return {path.name: path for path in _folder().glob(f"{_prefix(fingerprint)}*.npz")}


def put_file(name: str, content: bytes) -> None:
    """Add a file from another machine's cache. Reading it checks that it is complete."""
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as file:
        file.write(content)
    Path(file.name).replace(folder / Path(name).name)


def _folder() -> Path:
    return paths.datasets_dir() / "truth"


def _prefix(fingerprint: str) -> str:
    return f"{hashlib.sha256(fingerprint.encode()).hexdigest()[:16]}-"


_ARRAYS = ("ids", "distances", "available", "accept_offsets", "accept_ids")


def _digest(key: str, arrays: Sequence[NDArray[Any]]) -> NDArray[np.uint8]:
    seen = hashlib.sha256(key.encode())
    for array in arrays:
        seen.update(f"{array.dtype.str}{array.shape}".encode())
        seen.update(np.ascontiguousarray(array).data)
    return np.frombuffer(seen.digest(), np.uint8)


def _read(path: Path, key: str, k: int) -> Truth | None:
    """The cached truth that `_write` wrote; None, with a warning, if it is damaged."""
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = [file[name] for name in _ARRAYS]
            if not np.array_equal(file["digest"], _digest(key, arrays)):
                raise ValueError("its checksum does not fit its content")
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        warnings.warn(f"{path}: damaged ({error}); computing the truth again", stacklevel=3)
        return None
    return Truth(k, *arrays)


def _write(path: Path, key: str, truth: Truth) -> None:
    """Write atomically: another process sees the old file, none, or the new one."""
    arrays = [getattr(truth, name) for name in _ARRAYS]
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        try:
            parts = dict(zip(_ARRAYS, arrays, strict=True))
            np.savez(file, digest=_digest(key, arrays), **parts)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
    Path(file.name).replace(path)
