"""The recall of searches by each lane, of rows whose exact neighbours are computed here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Judge
from vectrial.engine.client import Requests, closed, drive
from vectrial.model.capabilities import Params, Returning
from vectrial.model.filters import Filter
from vectrial.model.metric import Metric, distances
from vectrial.model.store import Store


@dataclass(frozen=True)
class SearchCheck:
    """Rows of a store, and what is searched for: ids (n,), vectors (n, d), queries (q, d).

    Of every method, mask (n,) says which rows the filter keeps; None keeps all.
    """

    ids: NDArray[np.int64]
    vectors: NDArray[np.float32]
    queries: NDArray[np.float32]
    k: int = 10

    def nearest(
        self, metric: Metric, mask: NDArray[np.bool_] | None = None
    ) -> list[NDArray[np.int64]]:
        """The ids of the k nearest rows of every query, closest first."""
        kept = slice(None) if mask is None else mask
        ids, vectors = self.ids[kept], self.vectors[kept]
        return [ids[np.argsort(distances(q, vectors, metric))[: self.k]] for q in self.queries]

    def client_recall(
        self,
        store: Store,
        metric: Metric,
        params: Params,
        where: Filter | None = None,
        mask: NDArray[np.bool_] | None = None,
        returning: Returning = Returning.IDS,
    ) -> float:
        search = store.searcher_returning(returning, self.k, params, where)
        shares = [
            np.isin(near, search(query)[0]).mean()
            for query, near in zip(self.queries, self.nearest(metric, mask), strict=True)
        ]
        return float(np.mean(shares))

    def native_recall(
        self,
        store: Store,
        metric: Metric,
        params: Params,
        where: Filter | None = None,
        mask: NDArray[np.bool_] | None = None,
        returning: Returning = Returning.IDS,
        protocol: str | None = None,
    ) -> float:
        """Of the native lane, two clients, in which no request fails."""
        near = self.nearest(metric, mask)
        count = np.array([len(one) for one in near], np.int64)
        offsets = np.append(0, np.cumsum(count)).astype(np.int64)
        native = store.native_search(self.k, params, where, returning)
        requests = Requests(
            "search",
            vectors=self.queries,
            k=self.k,
            filters=[native.filter] if native.filter else [],
            options=native.options,
            judge=Judge(self.k, offsets, np.concatenate([np.sort(one) for one in near]), count),
        )
        target = native.target
        if protocol is not None:
            target = {**target, "protocol": protocol}  # type: ignore[typeddict-item]
        (found,) = drive(target, [requests], [closed(2, count=len(self.queries))])["classes"]
        errors = found["recorder"].errors()
        assert errors == [], errors
        return float(found["recorder"].summary()["recall_mean"] or 0.0)
