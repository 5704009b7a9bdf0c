"""Datasets and their ground truth, whatever their source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.filters import Filter
from vectrial.model.metric import Metric


@dataclass(frozen=True)
class Provenance:
    """Origin of a dataset: shown by `vectrial data list` and kept with every run.

    stand_in_for: the published dataset that this one replaces here, if it does.
    """

    source: str
    licence: str
    checksum: str
    stand_in_for: str | None = None
    notes: tuple[str, ...] = ()


#: The fact that names the metadata column with the user's own ids, where rows are numbered.
OWN_IDS = "own_ids"
#: The fact that the queries are among the vectors.
QUERIES_ARE_ROWS = "queries_are_rows"


@dataclass(frozen=True)
class Dataset:
    """Vectors, ids, metadata, queries, a metric, and optionally a filter per query.

    vectors: float32 (n, d), C-contiguous, usually memory-mapped; not normalised.
    ids: int64 (n,), distinct.
    queries: float32 (q, d), C-contiguous; none is held in `vectors` on purpose, unless the fact
        `QUERIES_ARE_ROWS` says so.
    metadata: n rows; columns int64, float64, string or bool; None if there is none.
    filters: one per query, None for a query without; None if no query has one.
    query_metadata: q rows of facts about the queries, such as their class, by which answers are
        judged; stores do not receive it. Columns as in `metadata`; None if nothing is known.
    fingerprint: hash of everything above: part of trial keys and of truth's file name.
    facts: findings about the data (duplicates, norms, intrinsic dimension, shift).
    """

    name: str
    metric: Metric
    vectors: NDArray[np.float32]
    ids: NDArray[np.int64]
    queries: NDArray[np.float32]
    fingerprint: str
    provenance: Provenance
    metadata: pa.Table | None = None
    filters: tuple[Filter | None, ...] | None = None
    query_metadata: pa.Table | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Number of vectors, n."""
        return int(self.vectors.shape[0])

    @property
    def dim(self) -> int:
        """Dimension of the vectors, d."""
        return int(self.vectors.shape[1])

    @property
    def own_ids(self) -> pa.ChunkedArray[Any] | None:
        """The user's own ids (n), text or integers, if rows are numbered instead."""
        column = self.facts.get(OWN_IDS)
        if self.metadata is None or column not in self.metadata.column_names:
            return None
        return self.metadata.column(column)

    @property
    def raw_bytes(self) -> int:
        """Size of the vectors as float32, n·d·4 bytes."""
        return self.rows * self.dim * 4


@dataclass(frozen=True)
class Truth:
    """Exact nearest neighbours of q queries, and every id that counts as right.

    ids: int64 (q, k), nearest first, ties by smaller id; -1 if fewer than k rows match.
    distances: float64 (q, k), as defined in `vectrial.model.metric`; +inf where ids is -1.
    available: int64 (q,), min(k, rows that match): the denominator of recall.
    accept_offsets, accept_ids: int64 (q + 1,) and flat, ascending within a query: all ids whose
        distance is within the tie tolerance of the k-th, however many there are.
    """

    k: int
    ids: NDArray[np.int64]
    distances: NDArray[np.float64]
    available: NDArray[np.int64]
    accept_offsets: NDArray[np.int64]
    accept_ids: NDArray[np.int64]
