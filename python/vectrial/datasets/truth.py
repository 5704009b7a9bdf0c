"""The ground truth of a dataset: from the cache, or computed by `vectrial.datasets.exact`."""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

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
    file = f"{_prefix(dataset.fingerprint)}{name}.npz"
    cached = _read(file, key, k)
    if cached is not None:
        return cached
    truth = _computed(dataset, k, every, rows, progress, scanner)
    _cache.put(file, _packed(key, truth))
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


class TruthFiles(Protocol):
    """The files of truths, by name. Reading a truth checks that its file is complete."""

    def get(self, name: str) -> bytes | None:
        """The content of a file; None if there is none."""
        ...

    def put(self, name: str, content: bytes) -> None:
        """Keep a file; others see the old one, none, or the new one."""
        ...


class FilesOnDisk:
    """The files of truths on this machine."""

    @property
    def folder(self) -> Path:
        """Their folder, which may be missing."""
        return paths.datasets_dir() / "truth"

    def get(self, name: str) -> bytes | None:
        """See `TruthFiles`."""
        path = self.folder / Path(name).name
        return path.read_bytes() if path.is_file() else None

    def put(self, name: str, content: bytes) -> None:
        """See `TruthFiles`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self.folder, suffix=".part", delete=False) as file:
            part = Path(file.name)
            try:
                file.write(content)
                file.close()
                part.replace(self.folder / Path(name).name)
            except BaseException:
                part.unlink(missing_ok=True)
                raise


_cache: TruthFiles = FilesOnDisk()


def use_files(files: TruthFiles) -> None:
    """Keep truths in these files from now on, in this process."""
    global _cache
    _cache = files


def files_of(fingerprint: str) -> dict[str, Path]:
    """The files of all truths of a dataset on this machine, by name."""
    return {path.name: path for path in FilesOnDisk().folder.glob(f"{_prefix(fingerprint)}*.npz")}


def _prefix(fingerprint: str) -> str:
    return f"{hashlib.sha256(fingerprint.encode()).hexdigest()[:16]}-"


_ARRAYS = ("ids", "distances", "available", "accept_offsets", "accept_ids")


def _digest(key: str, arrays: Sequence[NDArray[Any]]) -> NDArray[np.uint8]:
    seen = hashlib.sha256(key.encode())
    for array in arrays:
        seen.update(f"{array.dtype.str}{array.shape}".encode())
        seen.update(np.ascontiguousarray(array).data)
    return np.frombuffer(seen.digest(), np.uint8)


def _read(name: str, key: str, k: int) -> Truth | None:
    """The truth in a file of the cache; None, with a warning, if it is damaged."""
    content = _cache.get(name)
    if content is None:
        return None
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = [file[one] for one in _ARRAYS]
            if not np.array_equal(file["digest"], _digest(key, arrays)):
                raise ValueError("its checksum does not fit its content")
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        warnings.warn(f"{name}: damaged ({error}); computing the truth again", stacklevel=3)
        return None
    return Truth(k, *arrays)


def _packed(key: str, truth: Truth) -> bytes:
    """The content of a truth's file."""
    arrays = {name: getattr(truth, name) for name in _ARRAYS}
    file = io.BytesIO()
    np.savez(file, digest=_digest(key, list(arrays.values())), **arrays)
    return file.getvalue()
