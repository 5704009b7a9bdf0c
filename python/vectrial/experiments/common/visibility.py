"""Checks that searches see written, moved and deleted rows. The measured store is asked, outside
every clock."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from vectrial.gate.model import SHARE_OF_FLOOR
from vectrial.gate.row_search import NEIGHBOURS, RowSearch, allowed_misses, find_rows, search_ids
from vectrial.model.context import Context
from vectrial.model.metric import distances, rounding_of
from vectrial.model.phase import Phase
from vectrial.model.store import Searcher

Ids = NDArray[np.int64]
Vectors = NDArray[np.float32]
#: Seconds that each question may take; searches near deleted rows at least, where time allows,
#: so that one in a hundred answers that names one is seen.
BUDGET_S, _NEAR_DELETED = 1.0, 500
#: Rows that are looked for before anything has changed.
_BEFORE = 100
#: A row is out of place if more than this multiple of the requested rows are nearer than it.
_FAR = 4
_BLOCK = 65_536
#: Rows that are out of place beyond which no further ones are judged.
_SHOWN = 100
#: Number of faulty rows, and their fault.
_Fault = tuple[int, str]


class Changes:
    """Follows which rows a store should hold, and compares what searches find with that.

    An exact index must see every change. Another may miss as many of the rows that were written as
    the gate allows it to miss of those that were loaded; it may show none at its old place, and no
    deleted one.
    """

    def __init__(self, context: Context) -> None:
        self._context, self._dataset = context, context.dataset
        self._order = np.argsort(context.dataset.ids)
        self._sorted = context.dataset.ids[self._order]
        self._written: dict[int, Vectors] = {}
        self._deleted: set[int] = set()
        self._floor = self._required_share()

    def check_created(self, phase: Phase, ids: Ids, vectors: Vectors) -> None:
        """Check that acknowledged inserts of rows (n,), (n, d) are each found."""
        self._written |= dict(zip(ids.tolist(), vectors, strict=True))
        if ids.size and _is_complete(phase):
            sought = self._search_for_rows(ids, vectors)
            _record(phase, sought.tried, self._missing_faults(sought))

    def check_updated(self, phase: Phase, ids: Ids, vectors: Vectors) -> None:
        """Check that rows moved to these vectors are each found there, and not at their old
        place."""
        before = self.vectors(ids)
        self._written |= dict(zip(ids.tolist(), vectors, strict=True))
        if ids.size and _is_complete(phase):
            sought = self._search_for_rows(ids, vectors)
            faults = self._missing_faults(sought)
            if stale := self._ids_at_old_places(ids, before):
                faults.append((len(stale), f"are still found at their old place, as {stale[:3]}"))
            _record(phase, sought.tried, faults)

    def check_deleted(self, phase: Phase, ids: Ids) -> None:
        """Check that no answer near deleted rows names one of them."""
        near = self.vectors(ids)
        self._deleted |= set(ids.tolist())
        if not ids.size or not _is_complete(phase):
            return
        rounds = -(-max(_NEAR_DELETED, len(ids)) // len(ids))
        asked = itertools.chain.from_iterable(itertools.repeat(near, rounds))
        seen, done = set[int](), 0
        for found in search_ids(self._searcher(), asked, budget_s=BUDGET_S):
            done += 1
            seen |= self._deleted & set(found.tolist())
        shown = f"are still named by searches, as {sorted(seen)[:3]}"
        _record(phase, min(len(ids), done), [(len(seen), shown)] if seen else [])

    def vectors(self, ids: Ids) -> Vectors:
        """Current vectors of the rows, (n, d); NaN for deleted rows."""
        at = np.minimum(np.searchsorted(self._sorted, ids), len(self._sorted) - 1)
        known = self._sorted[at] == ids
        found = np.array(self._dataset.vectors[self._order[at]], dtype=np.float32)
        found[~known] = np.nan
        for i, id_ in enumerate(ids.tolist()):
            if id_ in self._written:
                found[i] = self._written[id_]
            if id_ in self._deleted:
                found[i] = np.nan
        return found

    def _required_share(self) -> float:
        """The share of written rows that searches must find; see `gate.contents`."""
        kind = self._context.store.capabilities.indexes[self._context.index.kind]
        floor = kind.floor(self._context.schema.metric)
        if kind.exact:
            return 1.0
        rng = np.random.default_rng([self._context.seed, 3])
        at = rng.permutation(self._dataset.rows)[:_BEFORE]
        sought = self._search_for_rows(self._dataset.ids[at], self._dataset.vectors[at])
        found = sought.tried - len(sought.lost)
        return floor if found >= floor * sought.tried else floor * SHARE_OF_FLOOR

    def _searcher(self) -> Searcher:
        """A search that sees every change acknowledged before it."""
        context = self._context
        context.store.refresh()
        kind = context.store.capabilities.indexes[context.index.kind]
        k = min(context.k, NEIGHBOURS)
        return context.store.searcher(k, kind.nearly_exact(k, **kind.strong_consistency_params))

    def _search_for_rows(self, ids: Ids, vectors: Vectors) -> RowSearch:
        metric = self._context.schema.metric
        return find_rows(
            self._searcher(),
            ids.tolist(),
            vectors,
            self.vectors,
            metric,
            expected=min(self._context.k, NEIGHBOURS, self._dataset.rows),
            budget_s=BUDGET_S,
            rounding=rounding_of(self._context.store.capabilities.scores[metric]),
        )

    def _missing_faults(self, search: RowSearch) -> list[_Fault]:
        lost = search.lost
        if len(lost) <= allowed_misses(search.tried, self._floor):
            return []
        return [(len(lost), f"are not found by searches near them, as {lost[:3]}")]

    def _ids_at_old_places(self, ids: Ids, before: Vectors) -> list[int]:
        """Moved rows that are still found at their old place, though they are far from it."""
        stale = list[int]()
        found = search_ids(self._searcher(), before, budget_s=BUDGET_S)
        for id_, named, vector in zip(ids.tolist(), found, before, strict=False):
            if id_ in named and len(stale) < _SHOWN and self._is_out_of_place(id_, named, vector):
                stale.append(id_)
        return stale

    def _is_out_of_place(self, id_: int, named: Ids, vector: Vectors) -> bool:
        """True if far more rows are nearer to a vector (d,) than this returned row."""
        metric, dataset = self._context.schema.metric, self._dataset
        own = float(distances(vector, self._written[id_][None], metric)[0])
        others = self.vectors(named[named != id_])
        if (distances(vector, others, metric) >= own).any():
            return False  # it is not the farthest of them
        nearer = 0
        for start in range(0, dataset.rows, _BLOCK):
            block = slice(start, start + _BLOCK)
            still = ~np.isin(dataset.ids[block], self._changed_ids())
            far = distances(vector, np.asarray(dataset.vectors[block])[still], metric)
            nearer += int((far < own).sum())
            if nearer > _FAR * len(named):
                return True
        return False

    def _changed_ids(self) -> Ids:
        return np.array([*self._written, *self._deleted], dtype=np.int64)


def _is_complete(phase: Phase) -> bool:
    """True if every operation had its effect, read by id; only then are searches checked."""
    whole = not phase.metrics.get("errors") and not phase.metrics.get("ineffective")
    if not whole:
        why = "not every operation had its effect, so that searches were not asked"
        phase.missing |= dict.fromkeys(("checked_by_search", "wrong_by_search"), why)
    return whole


def _record(phase: Phase, checked: int, faults: list[_Fault]) -> None:
    """Write into a phase how many rows were looked for, and how many have which fault."""
    phase.metrics |= {
        "checked_by_search": float(checked),
        "wrong_by_search": float(sum(wrong for wrong, _ in faults)),
    }
    for wrong, what in faults:
        phase.invalidate(f"{wrong} of {checked} rows looked for {what}")
