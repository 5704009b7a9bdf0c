"""Checks that every loaded row is present, and that searches find it."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.gate.model import GateResults, Ids, Subject, Vectors
from vectrial.gate.row_search import (
    NEIGHBOURS,
    RowSearch,
    allowed_misses,
    detectable_loss,
    find_rows,
)
from vectrial.model.metric import rounding_of
from vectrial.stores.common.arrow import ids_of

CHECKS = ("all_rows_kept", "rows_found_by_search")
#: Most rows to look for: if one row in a thousand is missing, 95 % of samples have one.
MOST = 3000
#: Time limits in seconds: reading all rows, and reading by id and searching.
SCAN_S, READ_S, SEARCH_S = 1.0, 1.0, 1.5
#: Bytes of vectors beyond which not all rows are read.
SCAN_BYTES = 64 << 20
#: Rows of a read by id.
_PAGE = 300


def check_all_rows(subject: Subject, report: GateResults) -> None:
    """`all_rows_kept`: check every id if the store can be read quickly, else a sample of ids."""
    rows = subject.rows
    if subject.capabilities.scan and rows.vectors.nbytes <= SCAN_BYTES:
        read = _read_all_ids(subject)
        if read is not None:
            report("all_rows_kept", *_compare_ids(read, rows.ids))
            return
    if not subject.capabilities.get:
        why = "the store cannot be read by id, and not read out"
        report(
            "all_rows_kept", None, f"{why} in {SCAN_S:g} s" if subject.capabilities.scan else why
        )
        return
    sample_ids = np.random.default_rng([subject.seed, 1]).permutation(rows.ids)[:MOST]
    end, missing, done = time.perf_counter() + READ_S, list[int](), 0
    while done < len(sample_ids) and (not done or time.perf_counter() <= end):
        page = sample_ids[done : done + _PAGE]
        missing += np.setdiff1d(page, ids_of(subject.store.get(page))).tolist()
        done += len(page)
    text = f"{done - len(missing):,} of {done:,} rows drawn at random are there by id"
    report("all_rows_kept", not missing, _describe_lost(text, missing, done, len(rows.ids)))


def _read_all_ids(subject: Subject) -> Ids | None:
    """The ids of all rows; None if they do not arrive in time."""
    end, parts = time.perf_counter() + SCAN_S, [np.empty(0, np.int64)]
    with closing(_generator(subject)) as batches:
        for batch in batches:
            parts.append(ids_of(batch))
            if time.perf_counter() > end:
                return None
    return np.concatenate(parts)


def _generator(subject: Subject) -> Generator[pa.RecordBatch, None, None]:
    """A scan that can be closed, whatever kind of iterator the store returns."""
    yield from subject.store.scan()


def _compare_ids(read: NDArray[np.int64], written: NDArray[np.int64]) -> tuple[bool, str]:
    missing, strange = np.setdiff1d(written, read), np.setdiff1d(read, written)
    twice = len(read) - len(np.unique(read))
    if not (len(missing) or len(strange) or twice):
        return True, f"all {len(written):,} rows were read out"
    return False, (
        f"of {len(written):,} rows read out {len(missing):,} are missing: {missing[:5].tolist()};"
        f" {len(strange):,} were never written, {twice:,} come again"
    )


def check_searchable(subject: Subject, report: GateResults, true_share: float) -> None:
    """`rows_found_by_search`: rows drawn at random are found by their own vectors.

    true_share: share of true neighbours that the loaded store returned at the generous setting. If
        it reaches the index's floor, the rows have structure, and the floor is demanded here too.
    """
    rows = subject.rows
    at = np.random.default_rng([subject.seed, 2]).permutation(len(rows.ids))[:MOST]
    expected = min(subject.k, NEIGHBOURS, len(rows.ids))
    sought = find_rows(
        subject.store.searcher(expected, subject.nearly_exact_params()),
        rows.ids[at].tolist(),
        (np.asarray(rows.vectors[i], dtype=np.float32) for i in at),
        lambda ids: loaded_vectors(subject, ids),
        subject.schema.metric,
        expected=expected,
        budget_s=SEARCH_S,
        rounding=rounding_of(subject.capabilities.scores[subject.schema.metric]),
    )
    structured = true_share >= subject.floor
    floor = subject.floor if structured else subject.adjust_floor(subject.floor)
    allowed = 0 if subject.kind.exact else allowed_misses(sought.tried, floor)
    report(
        "rows_found_by_search",
        len(sought.lost) <= allowed,
        _search_detail(sought, allowed, len(rows.ids)),
    )


def loaded_vectors(subject: Subject, ids: Ids) -> Vectors:
    """Vectors (n, d) of loaded rows by id; NaN for ids that were never loaded."""
    at = subject.rows.positions(ids)
    found = np.array(subject.rows.vectors[np.maximum(at, 0)], dtype=np.float32)
    found[at < 0] = np.nan
    return found


def _search_detail(search: RowSearch, allowed: int, total: int) -> str:
    found = search.tried - len(search.lost)
    text = f"{found:,} of {search.tried:,} rows drawn at random are found by their own vectors"
    if allowed:
        text += f", where {allowed:,} may be missed"
    return _describe_lost(text, search.lost, search.tried, total)


def _describe_lost(text: str, lost: list[int], sample: int, total: int) -> str:
    if lost:
        return f"{text}; not, among others: {lost[:5]}"
    if 0 < sample < total:
        text += f"; a loss of {detectable_loss(sample):.2%} would have been seen with 95 %"
    return text
