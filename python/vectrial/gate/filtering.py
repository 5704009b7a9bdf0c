"""Checks of searches under filters and of finds by condition.

They run on the loaded store with filters made from the dataset's values, and on the small store
with filters from common to rare.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from vectrial.datasets.exact import exact_topk_filtered
from vectrial.gate.model import Answer, GateResults, Subject
from vectrial.model import filters
from vectrial.model.filters import Filter

SEARCH_CHECKS = ("filters_hold", "filters_complete", "filtered_recall")
FIND_CHECK = "finds_hold"
#: Queries under each filter.
QUERIES = 5
#: Seconds that a store's searches under one filter may take, and its finds; it is asked once in
#: any case.
BUDGET_S, FIND_BUDGET_S = 0.5, 3.0


@dataclass(frozen=True)
class FilterProbe:
    """A store and the filters to check it with.

    on: description of its rows, for messages. floor: least share of true neighbours.
    """

    subject: Subject
    wheres: Sequence[Filter]
    on: str
    floor: float

    def usable_filters(self, honoured: frozenset[str]) -> list[tuple[Filter, NDArray[np.bool_]]]:
        """The filters that use only `honoured` operators, each with the rows that it keeps."""
        metadata = self.subject.rows.metadata
        return [
            (where, filters.evaluate(where, metadata))
            for where in self.wheres
            if metadata is not None and filters.operators(where) <= honoured
        ]


@dataclass(frozen=True)
class _FilteredAnswer:
    """An answer under a filter. mask: rows that the filter keeps. right: ids of true neighbours."""

    where: Filter
    mask: NDArray[np.bool_]
    answer: Answer
    right: NDArray[np.int64]


def check_searches(probes: Sequence[FilterProbe], report: GateResults) -> None:
    """`SEARCH_CHECKS`: every row matches the filter, none is missing, and they are the nearest."""
    given = [(probe, answers) for probe in probes if (answers := _answers(probe))]
    if not given:
        for name in SEARCH_CHECKS:
            report(name, None, _why_not(probes, "filtered search"))
        return
    said = ", ".join(f"{len(answers)} answers {probe.on}" for probe, answers in given)
    outside = [fault for probe, answers in given for fault in _foreign_row_faults(probe, answers)]
    report("filters_hold", not outside, _first_faults(outside) or f"every row of {said} holds")
    short = [fault for probe, answers in given for fault in _row_count_faults(probe, answers)]
    report("filters_complete", not short, _first_faults(short) or f"{said}: all that exist")
    shares = [(_share(probe, answers), probe) for probe, answers in given]
    report(
        "filtered_recall",
        all(share >= probe.floor for share, probe in shares),
        "true neighbours among the rows that hold their filter: "
        + ", ".join(f"{share:.4f} {probe.on}, at least {probe.floor:g}" for share, probe in shares),
    )


def check_finds(probes: Sequence[FilterProbe], report: GateResults) -> None:
    """`FIND_CHECK`: found ids match the condition, without repeats, complete up to the limit."""
    faults, count = [], 0
    for probe in probes:
        rows, end = probe.subject.rows, time.perf_counter() + FIND_BUDGET_S
        for number, (where, mask) in enumerate(
            probe.usable_filters(probe.subject.capabilities.find)
        ):
            if number and time.perf_counter() > end:
                break
            limit = min(len(rows.ids), 1000)
            found = np.asarray(probe.subject.store.find(where, limit), dtype=np.int64)
            expected, allowed_ids = min(limit, int(mask.sum())), rows.ids[mask]
            strange = np.setdiff1d(found, allowed_ids)
            count += 1
            if len(strange):
                faults.append(
                    f"{_describe_filter(probe, where)} found {len(strange)} rows outside it"
                )
            elif len(np.unique(found)) != len(found):
                faults.append(f"{_describe_filter(probe, where)} found a row twice")
            elif len(found) != expected:
                faults.append(
                    f"{_describe_filter(probe, where)} found {len(found)} of {expected} rows"
                )
    if not count:
        report(FIND_CHECK, None, _why_not(probes, "find by condition"))
        return
    report(FIND_CHECK, not faults, _first_faults(faults) or f"{count} conditions found their rows")


def _answers(probe: FilterProbe) -> list[_FilteredAnswer]:
    """Answers under every filter, with the true neighbours."""
    subject, rows = probe.subject, probe.subject.rows
    usable = probe.usable_filters(subject.capabilities.filters)
    given: list[tuple[int, int, Answer]] = []
    for number, (where, _) in enumerate(usable):
        # Other queries under each filter.
        at = (np.arange(QUERIES) + number * QUERIES) % len(subject.queries)
        answers = subject.answer(subject.queries[at], where, least=1, budget_s=BUDGET_S)
        given += [(number, int(q), answer) for q, answer in zip(at, answers, strict=False)]
    if not given:
        return []
    truth = exact_topk_filtered(
        rows.vectors,
        rows.ids,
        np.ascontiguousarray(subject.queries[[query for _, query, _ in given]]),
        subject.schema.metric,
        subject.k,
        [partial(np.asarray, mask) for _, mask in usable],
        np.array([number for number, _, _ in given], dtype=np.int64),
    )
    right = np.split(truth.accept_ids, truth.accept_offsets[1:-1])
    return [
        _FilteredAnswer(*usable[number], answer, accepted)
        for (number, _, answer), accepted in zip(given, right, strict=True)
    ]


def _foreign_row_faults(probe: FilterProbe, answers: Sequence[_FilteredAnswer]) -> list[str]:
    """A message for each filter that some returned rows fail: their number and an example."""
    rows = probe.subject.rows
    assert rows.metadata is not None
    found: dict[Filter, NDArray[np.int64]] = {}
    for one in answers:
        places = rows.positions(one.answer[0])
        wrong = one.answer[0][(places < 0) | ~one.mask[places]]
        found[one.where] = np.concatenate([found.get(one.where, wrong[:0]), wrong])
    faults = []
    for where, wrong in found.items():
        if len(wrong):
            at = int(rows.positions(wrong[:1])[0])
            columns = sorted(filters.fields(where)) if at >= 0 else []
            values = {name: rows.metadata.column(name)[at].as_py() for name in columns}
            faults.append(
                f"{_describe_filter(probe, where)} returned {len(wrong)} rows outside it;"
                f" id {wrong[0]} has {values or 'never been written'}"
            )
    return faults


def _row_count_faults(probe: FilterProbe, answers: Sequence[_FilteredAnswer]) -> list[str]:
    """A message for each filter whose answers have too few or too many rows, with their average
    number."""
    k = probe.subject.k
    lengths: dict[Filter, list[int]] = {}
    expected: dict[Filter, int] = {}
    for one in answers:
        ids = one.answer[0]
        lengths.setdefault(one.where, []).append(len(ids) if len(ids) > k else len(np.unique(ids)))
        expected[one.where] = min(k, int(one.mask.sum()))
    return [
        f"{_describe_filter(probe, where)} returned {np.mean(got):.1f} of {expected[where]} rows"
        for where, got in lengths.items()
        if min(got) < expected[where] or max(got) > k
    ]


def _share(probe: FilterProbe, answers: Sequence[_FilteredAnswer]) -> float:
    """Share of true neighbours among the distinct returned rows that match their filter. Other
    checks cover rows that do not match, missing rows, and rows beyond k."""
    right = total = 0
    for one in answers:
        inside = np.intersect1d(one.answer[0][: probe.subject.k], probe.subject.rows.ids[one.mask])
        right += int(np.isin(inside, one.right).sum())
        total += len(inside)
    return right / total if total else 1.0


def _first_faults(faults: Sequence[str], most: int = 3) -> str:
    """The first few of many faults, for a message."""
    more = f"; and {len(faults) - most} more filters" if len(faults) > most else ""
    return "; ".join(faults[:most]) + more


def _describe_filter(probe: FilterProbe, where: Filter) -> str:
    return f"{filters.to_json(where)} {probe.on}"


def _why_not(probes: Sequence[FilterProbe], what: str) -> str:
    can = probes[0].subject.capabilities
    honoured = can.filters if what == "filtered search" else can.find
    return f"the store declares no {what}" if not honoured else "it keeps no column to filter by"
