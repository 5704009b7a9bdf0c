"""Folders in which base, queries and neighbours are files of their own.

texmex: `sift_base.fvecs`, `sift_query.fvecs`, `sift_groundtruth.ivecs` (Euclidean distance).
cuVS: `base.fbin`, `query.fbin`, `groundtruth.neighbors.ibin` (the metric is not said).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial.datasets.readers import bigann, texmex
from vectrial.datasets.readers.base import ReaderOptions, VectorSource, check_side_bytes
from vectrial.model.metric import Metric


def is_pair(folder: Path) -> bool:
    """True if the folder has a base file of this layout."""
    return _base(folder) is not None


def open_pair(folder: Path, options: ReaderOptions) -> VectorSource:
    """Open base, queries and neighbours of a folder of this layout as one source."""
    base = _base(folder)
    if base is None:
        raise AssertionError("is_pair said so")
    is_texmex = base.suffix in texmex.DTYPES
    opener = texmex.open_texmex if is_texmex else bigann.open_bigann
    prefix = base.stem.removesuffix("base")
    source = opener(base, options)
    queries = _whole(
        opener, folder, [f"{prefix}query{base.suffix}", f"{prefix}queries{base.suffix}"]
    )
    names = [f"{prefix}groundtruth.ivecs", f"{prefix}groundtruth.neighbors.ibin"]
    return replace(
        source,
        path=folder,
        format=f"{source.format} folder",
        metric=Metric.L2 if is_texmex else None,
        queries=queries,
        neighbors=_whole(opener, folder, names),
        notes=("texmex sets are measured in Euclidean distance",) if is_texmex else (),
    )


def _base(folder: Path) -> Path | None:
    for suffix in (*texmex.DTYPES, *bigann.DTYPES):
        files = [file for file in folder.glob(f"*base{suffix}") if not file.name.startswith(".")]
        if len(files) == 1:
            return files[0]
    return None


def _whole(
    opener: Callable[[Path, ReaderOptions], VectorSource], folder: Path, names: list[str]
) -> NDArray[Any] | None:
    file = next((folder / name for name in names if (folder / name).is_file()), None)
    if file is None:
        return None
    check_side_bytes(file.stat().st_size, str(file))
    source = opener(file, ReaderOptions())
    # Neighbours pass through the same reader: float32 would lose ids past 2^24.
    return np.concatenate([block.vectors for block in source.read(1 << 16)])
