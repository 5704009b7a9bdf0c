"""The cases of a store on which a check runs.

A check runs on one case of each store, unless it is marked with what can change its outcome: the
kind of index (`each_index`, `each_index_of_a_library`), or the metric as well (`each_metric`). A
check marked with `bare_too` also runs on rows without metadata. `needs` names what a store must
declare for the check. If every case is requested, only the last two marks make a difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum
from functools import cache
from typing import Any, TypeVar

from vectrial.model.lane import writes_natively
from vectrial.model.store import Store
from vectrial.testing.conformance.world import Case

T = TypeVar("T", bound=Callable[..., Any])

#: Why a check cannot run on a case; None if it can.
Lack = Callable[[Case], str | None]


class CaseScope(IntEnum):
    """The cases of a store on which a check runs."""

    ONE = 0
    INDEXES_OF_A_LIBRARY = 1
    INDEXES = 2
    INDEXES_AND_METRICS = 3
    METRICS = 4


def each_index(test: T) -> T:
    """Mark a check that depends on the kind of index: it runs on each, under its first metric."""
    return _with_scope(test, CaseScope.INDEXES)


def each_index_of_a_library(test: T) -> T:
    """Mark a check whose outcome depends on the kind of index only in a library, which writes to
    each kind in its own way. In servers the kind makes no difference."""
    return _with_scope(test, CaseScope.INDEXES_OF_A_LIBRARY)


def each_index_and_metric(test: T) -> T:
    """Mark a check whose outcome depends on the kind of index, and separately on the metric. It
    runs on each index under its first metric, and on the first index under each metric; on a
    server, where every step is slow, only on the first index under its first metric."""
    return _with_scope(test, CaseScope.INDEXES_AND_METRICS)


def each_metric(test: T) -> T:
    """Mark a check whose outcome depends on the metric: it runs on each index under each metric. On
    a server, where every step is slow, it runs on each index under its first metric, and on the
    first index under each metric."""
    return _with_scope(test, CaseScope.METRICS)


def bare_too(test: T) -> T:
    """Mark a check that also runs on rows without metadata, on one case of each store."""
    marked: Any = test
    marked.bare_too = True
    return test


def needs(*what: str | Lack) -> Callable[[T], T]:
    """Mark a check of something that not every store has. An argument is the name of one of the
    `Capabilities`, which must not be empty or false, or a function that says what a case lacks."""

    def mark(test: T) -> T:
        marked: Any = test
        marked.needs = (*getattr(test, "needs", ()), *what)
        return test

    return mark


def cases_of(check: Callable[..., Any], store: type[Store], *, every: bool) -> list[Case]:
    """The cases of `store` on which `check` runs; none if the store lacks what it needs.

    every: all cases on which it can run, whatever its marks say.
    """
    bare = replace(telling_case(store), bare=True)
    marked = store.capabilities.field_types and hasattr(check, "bare_too")
    also = [bare] if marked and why_not_run(check, bare) is None else []
    return _with_metadata(check, store, every) + also


def _with_metadata(check: Callable[..., Any], store: type[Store], every: bool) -> list[Case]:
    able = [case for case in all_cases(store) if why_not_run(check, case) is None]
    scope = getattr(check, "scope", CaseScope.ONE)
    served = store.server is not None
    if every or (scope is CaseScope.METRICS and not served):
        return able
    first_metric = [case for case in able if case.metric is next(iter(case.capabilities.scores))]
    if scope is CaseScope.INDEXES_AND_METRICS and served:
        return first_metric[:1]
    if scope >= CaseScope.INDEXES_AND_METRICS:
        first = next(iter(store.capabilities.indexes))
        return [case for case in able if case.index == first or case in first_metric]
    if scope is CaseScope.INDEXES or (scope is CaseScope.INDEXES_OF_A_LIBRARY and not served):
        return first_metric
    return [max(first_metric, key=_telling_key)] if first_metric else []


def why_not_run(check: Callable[..., Any], case: Case) -> str | None:
    """The reason why `check` cannot run on `case`; None if it can."""
    for what in getattr(check, "needs", ()):
        if isinstance(what, str):
            if not getattr(case.capabilities, what):
                return f"{case.store.name} declares no {what.replace('_', ' ')}"
            continue
        lack: str | None = what(case)
        if lack is not None:
            return lack
    return None


@cache
def all_cases(store: type[Store]) -> tuple[Case, ...]:
    """Every kind of index under every metric."""
    return tuple(
        Case(store, index, metric)
        for index in store.capabilities.indexes
        for metric in store.capabilities.for_index(index).scores
    )


@cache
def telling_case(store: type[Store]) -> Case:
    """The most telling case: it has the most filters, and exact answers if any case has."""
    return max(all_cases(store), key=_telling_key)


def _telling_key(case: Case) -> tuple[int, bool]:
    return len(case.capabilities.filters), case.kind.exact


def _with_scope(test: T, scope: CaseScope) -> T:
    marked: Any = test
    marked.scope = scope
    return test


# -- What a store may lack that is no capability of its own --------------------------------------


def a_server(case: Case) -> str | None:
    return None if case.store.server is not None else f"{case.store.name} is a library"


def a_protocol(case: Case) -> str | None:
    if case.store.protocol is not None:
        return None
    return f"the engine does not speak {case.store.name}'s protocol"


def native_writes(case: Case) -> str | None:
    return (
        None if writes_natively(case.store) else f"the engine writes no rows of {case.store.name}"
    )


def conditions(case: Case) -> str | None:
    some = case.capabilities.filters | case.capabilities.find
    return None if some else f"{case.store.name} declares neither filters nor find"


def filtered_search(case: Case) -> str | None:
    usable = case.filters(case.capabilities.filters)
    return None if usable else f"{case.store.name} declares no filtered search"
