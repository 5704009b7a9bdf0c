"""What searches for each query, where filters differ from query to query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vectrial.model.errors import StoreError
from vectrial.model.filters import Filter, Filters, to_json
from vectrial.model.fusion import Blend
from vectrial.model.store import NativeSearch, Params, Returning, Searcher, Store


def searchers(
    store: Store, returning: Returning, k: int, params: Params, where: Filters
) -> Searcher | Sequence[Searcher]:
    """One searcher for all queries, or where there is a filter for each, one for each; queries
    under the same filter share theirs."""
    if not isinstance(where, Sequence):
        return store.searcher_returning(returning, k, params, where)
    distinct, which = _distinct(where)
    made = [store.searcher_returning(returning, k, params, one) for one in distinct]
    return [made[at] for at in which]


def hybrid_searchers(
    store: Store, k: int, params: Params, blend: Blend, texts: Sequence[str]
) -> Sequence[Searcher]:
    """A searcher for each query, with its text settled: they share one question but for that."""
    ask = store.hybrid_searcher(k, params, blend)

    def with_text(text: str) -> Searcher:
        return lambda vector, /: ask(vector, text)

    return [with_text(text) for text in texts]


def native_searches(
    store: Store, returning: Returning, k: int, params: Params, where: Filters
) -> tuple[NativeSearch, Sequence[bytes], NDArray[np.uint32] | None]:
    """The search as the native lane asks it, the distinct filters in the protocol's words, and
    which of them is each query's (None: the first is every one's, where there is one).

    Raises:
        StoreError: the store asks otherwise under one filter than under another.
    """
    if not isinstance(where, Sequence):
        native = store.native_search(k, params, where, returning)
        return native, [] if native.filter is None else [native.filter], None
    distinct, which = _distinct(where)
    made = [store.native_search(k, params, one, returning) for one in distinct]
    first = replace(made[0], filter=None)
    filters = [native.filter for native in made if native.filter is not None]
    if any(replace(native, filter=None) != first for native in made) or len(filters) < len(made):
        raise StoreError(f"{store.name} asks differently under each filter: one at a time, please")
    return first, filters, np.array(which, np.uint32)


def _distinct(where: Sequence[Filter]) -> tuple[list[Filter], list[int]]:
    """Each filter once, and which of them every query has. By text, since Eq("a", 1) equals
    Eq("a", True) in Python."""
    number: dict[str, int] = {}
    distinct: list[Filter] = []
    which = []
    for one in where:
        at = number.setdefault(to_json(one), len(distinct))
        if at == len(distinct):
            distinct.append(one)
        which.append(at)
    return distinct, which
