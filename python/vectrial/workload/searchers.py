"""Searchers of queries whose filters differ, for the Python lanes and for the native one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Judge
from vectrial.engine.client import Requests
from vectrial.model.capabilities import Params, Returning
from vectrial.model.errors import StoreError
from vectrial.model.filters import Filter, Filters, to_json
from vectrial.model.fusion import Blend
from vectrial.model.store import NativeSearch, Searcher, Store


def searchers(
    store: Store, returning: Returning, k: int, params: Params, where: Filters
) -> Searcher | Sequence[Searcher]:
    """One searcher for all queries, or one for each if every query has a filter; queries under the
    same filter share a searcher."""
    if not isinstance(where, Sequence):
        return store.searcher_returning(returning, k, params, where)
    distinct, which = _distinct(where)
    made = [store.searcher_returning(returning, k, params, one) for one in distinct]
    return [made[at] for at in which]


def hybrid_searchers(
    store: Store, k: int, params: Params, blend: Blend, texts: Sequence[str]
) -> Sequence[Searcher]:
    """A searcher for each query, with its text fixed; apart from the text, they are the same."""
    ask = store.hybrid_searcher(k, params, blend)

    def with_text(text: str) -> Searcher:
        return lambda vector, /: ask(vector, text)

    return [with_text(text) for text in texts]


@dataclass(frozen=True)
class NativeSearches:
    """A search in the form that the native lane sends.

    filters: the distinct filters, encoded for the protocol. filter_of: uint32 (q,), the number of
        each query's filter; None: all queries have the first filter, if there is one.
    """

    native: NativeSearch
    filters: Sequence[bytes]
    filter_of: NDArray[np.uint32] | None
    k: int

    def requests(
        self,
        name: str,
        queries: NDArray[np.float32],
        *,
        judge: Judge | None = None,
        keep: bool = False,
    ) -> Requests:
        """A request for each query (q, d). keep: send each once, in order, and keep its answer."""
        return Requests(
            name,
            vectors=queries,
            k=self.k,
            filters=self.filters,
            filter_of=self.filter_of,
            options=self.native.options,
            judge=judge,
            once=keep,
            keep=keep,
        )


def native_searches(
    store: Store, returning: Returning, k: int, params: Params, where: Filters
) -> NativeSearches:
    """The search in the form that the native lane sends.

    Raises:
        StoreError: the store asks otherwise under one filter than under another.
    """
    if not isinstance(where, Sequence):
        native = store.native_search(k, params, where, returning)
        return NativeSearches(native, [] if native.filter is None else [native.filter], None, k)
    distinct, which = _distinct(where)
    made = [store.native_search(k, params, one, returning) for one in distinct]
    first = replace(made[0], filter=None)
    filters = [native.filter for native in made if native.filter is not None]
    if any(replace(native, filter=None) != first for native in made) or len(filters) < len(made):
        raise StoreError(f"{store.name} asks differently under each filter: one at a time, please")
    return NativeSearches(first, filters, np.array(which, np.uint32), k)


def _distinct(where: Sequence[Filter]) -> tuple[list[Filter], list[int]]:
    """The distinct filters, and the number of each query's filter. They are compared as text, since
    Eq("a", 1) equals Eq("a", True) in Python."""
    number: dict[str, int] = {}
    distinct: list[Filter] = []
    which = []
    for one in where:
        at = number.setdefault(to_json(one), len(distinct))
        if at == len(distinct):
            distinct.append(one)
        which.append(at)
    return distinct, which
