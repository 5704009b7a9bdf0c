"""Bytes on disk: the blocks allocated to files and folders.

Sparse and preallocated files count as what they occupy, links are not followed, a file with
several names counts once, and what vanishes meanwhile counts nothing.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from vectrial.model.file_categories import FileKind, kind_of
from vectrial.model.store import Store

Kind = TypeVar("Kind")
#: st_blocks counts units of this size, whatever the file system's own block size is (stat(2)).
_BLOCK = 512


def allocated_bytes(folders: Iterable[Path]) -> int:
    """Bytes of the blocks allocated to files and folders under `folders`."""
    return sum(size for _, size in _path_bytes(folders))


def allocated_bytes_by_kind(
    folders: Iterable[Path], category: Callable[[str], Kind]
) -> Mapping[Kind, int]:
    """The bytes of `allocated_bytes` by kind; the sum is the same.

    category: kind of a path below a folder, with a leading `/`; a folder's also ends in `/`.
    """
    found = Counter[Kind]()
    for path, size in _path_bytes(folders):
        found[category(path)] += size
    return found


def store_bytes_by_kind(store: type[Store], folders: Iterable[Path]) -> Mapping[FileKind, int]:
    """Bytes allocated below `folders`, by the kinds of files that the store declares."""
    return allocated_bytes_by_kind(folders, lambda path: kind_of(path, store.files))


def _path_bytes(folders: Iterable[Path]) -> Iterator[tuple[str, int]]:
    """Each path relative to its folder (see `allocated_bytes_by_kind`), with the bytes of its own
    blocks."""
    seen: set[tuple[int, int]] = set()
    paths = [(os.fspath(folder), "/") for folder in folders]
    while paths:
        path, called = paths.pop()
        try:
            status = os.lstat(path)
        except OSError:
            continue
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        if not stat.S_ISDIR(status.st_mode):
            yield called, status.st_blocks * _BLOCK
            continue
        called = f"{called.rstrip('/')}/"
        yield called, status.st_blocks * _BLOCK
        try:
            paths += [(os.path.join(path, one), called + one) for one in os.listdir(path)]  # noqa: PTH118, PTH208
        except OSError:
            continue
