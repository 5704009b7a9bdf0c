"""Inputs and results of the gate."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial._engine import Judge
from vectrial.gate.checks import CHECKS
from vectrial.model.capabilities import Capabilities, Index, IndexKind, Params
from vectrial.model.filters import Filter
from vectrial.model.metric import Metric
from vectrial.model.schema import Schema
from vectrial.model.store import Store
from vectrial.model.trial import CheckResult, Scope
from vectrial.stores.common.arrow import ids_of, vectors_of

#: Relative error of a float64 in metadata: four units in the last place.
FLOAT_TOLERANCE = 4 * 2.0**-52
#: Recall that an exact index must reach: float32 may order near-ties differently from float64.
EXACT_FLOOR = 0.999
#: Fraction of its floor that an approximate index must reach on any data: uniform data in many
#: dimensions have no structure for a graph to follow.
SHARE_OF_FLOOR = 0.1
#: Concurrent searches where each waits for the writes before it.
_FRESH_AT_ONCE = 8

Ids = NDArray[np.int64]
Vectors = NDArray[np.float32]
Answer = tuple[Ids, NDArray[np.float32]]


@dataclass(frozen=True)
class GateResult:
    """Result of a check. `passed` is None if the check does not apply to the store or raised an
    error; in the latter case it is unknown whether the store is right."""

    name: str
    passed: bool | None
    detail: str
    raised: bool = False

    def row(self, scopes: Container[Scope]) -> CheckResult:
        """The result in its recorded form, for a trial whose figures depend on `scopes`."""
        check = CHECKS[self.name]
        relevant = check.invalidates in scopes
        return CheckResult(
            check.name, self.passed, self.detail, check.demands, check.invalidates, relevant
        )


@dataclass(frozen=True)
class ExpectedRows:
    """Expected content of a store: ids (n,), vectors (n, d), metadata (n rows) or None."""

    ids: Ids
    vectors: Vectors
    metadata: pa.Table | None = None

    def positions(self, ids: Ids) -> Ids:
        """Position of each id in `self.ids`; -1 for absent ids."""
        order, ascending = self._order
        at = np.minimum(np.searchsorted(ascending, ids), len(ascending) - 1)
        return np.where(ascending[at] == ids, order[at], -1)

    @cached_property
    def _order(self) -> tuple[Ids, Ids]:
        order = np.argsort(self.ids)
        return order, self.ids[order]


@dataclass(frozen=True)
class Subject:
    """A loaded store with its expected content and answers.

    make: creates a new store of the same kind in a folder.
    queries: (q, d). judge: knows their true neighbours among `rows`, for `k`.
    at_node: for each node of a cluster, a function that opens the loaded store there.
    read_only: somebody else made the collection: nothing is made beside it in its server, and
        searches leave its settings as they are.
    """

    store: Store
    make: Callable[[Path], Store]
    schema: Schema
    index: Index
    rows: ExpectedRows
    queries: Vectors
    judge: Judge
    k: int
    seed: int = 0
    at_node: tuple[Callable[[], Store], ...] = ()
    read_only: bool = False

    @property
    def kind(self) -> IndexKind:
        """The declaration of the index."""
        return self.store.capabilities.indexes[self.index.kind]

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities of the store with the index."""
        return self.store.capabilities.for_index(self.index.kind)

    @property
    def floor(self) -> float:
        """The recall that the index must reach at the generous setting, on data with structure.
        An exact index may miss neighbours that float32 cannot distinguish."""
        return self._floor(filtered=False)

    @property
    def filtered_floor(self) -> float:
        """The recall that filtered searches must reach."""
        return self._floor(filtered=True)

    def _floor(self, *, filtered: bool) -> float:
        floor = self.kind.floor(self.schema.metric, filtered=filtered)
        return max(floor, EXACT_FLOOR if self.kind.exact else 0.0)

    def adjust_floor(self, floor: float) -> float:
        """The floor, adjusted for rows of any distribution."""
        return floor * (1.0 if self.kind.exact else SHARE_OF_FLOOR)

    def nearly_exact_params(self, *, fresh: bool = False) -> Params:
        """Search parameters at which a correct index is nearly exact. `fresh`: answers must reflect
        all earlier changes."""
        kind = self.kind
        settings = kind.nearly_exact(self.k, **(kind.strong_consistency_params if fresh else {}))
        if self.read_only and self.capabilities.existing is not None:
            left = settings.model_dump(
                exclude=set(self.capabilities.existing.settings), exclude_unset=True
            )
            return kind.search.model_validate(left)
        return settings

    def answer(
        self,
        vectors: Vectors,
        where: Filter | None = None,
        *,
        least: int = 1,
        budget_s: float = math.inf,
        fresh: bool = False,
    ) -> list[Answer]:
        """Answers at the generous setting, one per vector; after `budget_s` only the first `least`
        are requested. `fresh`: they must reflect all earlier changes."""
        search = self.store.searcher(self.k, self.nearly_exact_params(fresh=fresh), where)

        def ask(vector: NDArray[np.float32]) -> Answer:
            ids, scores = search(vector)
            return np.array(ids, dtype=np.int64), np.array(scores, dtype=np.float32)

        if fresh and self.kind.strong_consistency_params and self.capabilities.concurrent_search:
            # Each waits until the server has seen every write, so they can all run at once.
            from concurrent.futures import ThreadPoolExecutor  # here: most stores need none

            with ThreadPoolExecutor(_FRESH_AT_ONCE) as pool:
                return list(pool.map(ask, vectors))
        end = time.perf_counter() + budget_s
        given: list[Answer] = []
        for vector in vectors:
            if len(given) >= least and time.perf_counter() > end:
                break
            given.append(ask(vector))
        return given


@dataclass
class GateResults:
    """Collects the results of checks."""

    results: list[GateResult] = field(default_factory=list)

    def __call__(
        self, name: str, passed: bool | None, detail: str, *, raised: bool = False
    ) -> None:
        assert name in CHECKS
        self.results.append(GateResult(name, passed, detail, raised))

    @contextmanager
    def check(self, *names: str) -> Iterator[None]:
        """Turn an error of the body into the result of those checks in `names` that are not yet
        reported; raise it again if all are.

        An error is not a wrong answer: it may be the store's, its client's or this machine's.
        """
        try:
            yield
        except Exception as error:
            known = {result.name for result in self.results}
            left = [name for name in names if name not in known]
            if not left:
                raise
            for name in left:
                self(name, None, f"raised {type(error).__name__}: {error}", raised=True)


def first_difference(subject: Subject, positions: Ids, table: pa.Table) -> str | None:
    """The first difference between the rows at `positions` and the rows read, or None."""
    rows = subject.rows
    position = {int(rows.ids[i]): int(i) for i in positions}
    got = ids_of(table)
    if len(got) != len(positions) or set(got.tolist()) != set(position):
        missing = sorted(set(position) - set(got.tolist()))
        return f"asked for {len(positions)} ids, {len(got)} rows came back; missing: {missing[:5]}"
    vectors = vectors_of(table)
    for i, id_ in enumerate(got.tolist()):
        if not is_same_vector(
            vectors[i], rows.vectors[position[id_]], subject.schema, subject.kind
        ):
            return f"the vector of id {id_} came back changed"
        for column in subject.schema.fields:
            assert rows.metadata is not None
            want = rows.metadata.column(column.name)[position[id_]].as_py()
            have = table.column(subject.schema.columns[column.name])[i].as_py()
            if not is_same_value(have, want):
                return f"column '{column.name}' of id {id_} is {have!r}, written was {want!r}"
    return None


def is_same_value(got: Any, want: Any) -> bool:
    """True if equal; floats may differ in their last bits, as in a store of decimal text."""
    if isinstance(got, float) and isinstance(want, float):
        same = math.isclose(got, want, rel_tol=FLOAT_TOLERANCE)
        return same or (math.isnan(got) and math.isnan(want))
    return bool(got == want)


def is_same_vector(got: Vectors, want: Vectors, schema: Schema, kind: IndexKind) -> bool:
    """True if a vector (d,) read from a store with this kind of index is the one written: equal up
    to float32; under cosine only in direction, under compression less."""
    g, w = np.asarray(got, dtype=np.float64), np.asarray(want, dtype=np.float64)
    if schema.metric is Metric.COSINE:
        g, w = g / (float(np.linalg.norm(g)) or 1.0), w / (float(np.linalg.norm(w)) or 1.0)
    slack = 1e-5 if kind.exact_scores else 0.5
    return bool(np.linalg.norm(g - w) <= slack * np.linalg.norm(w) + 1e-30)
