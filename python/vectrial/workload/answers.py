"""Checks of the timed answers beyond their recall, after the phase has ended.

Under load, a store may return shorter answers, repeated or missing rows, or cached answers. Each of
these makes a phase invalid, or is noted with its figures.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Recorder
from vectrial.gate.model import EXACT_FLOOR, ExpectedRows
from vectrial.gate.scores import compare, is_best_first
from vectrial.model import filters
from vectrial.model.consistency import cache_suspicion
from vectrial.model.context import Context
from vectrial.model.dataset import Dataset
from vectrial.model.filters import Filters
from vectrial.model.phase import Phase
from vectrial.workload.answer_log import AnswerLog, PhaseAnswers

#: Most recall that timed answers may lack, compared with untimed answers to the same queries ...
LOST = 0.01
#: ... beyond this many standard errors of the difference, of at least this many queries.
ERRORS, LEAST = 3.0, 30
#: Share of answers that may be short: for an exact index, and for another index without short
#: answers before the clock started.
SHORT_EXACT, SHORT = 0.001, 0.01
#: Rounding of timed scores, in units of what the gate allows to those of a few answers.
_SLACK = 4.0


def judge(context: Context, where: Filters, phase: Phase, answers: PhaseAnswers) -> None:
    """Write into a phase the metrics of its logged answers.

    Args:
        where: the filter of every search, or one for each of the dataset's queries.
    """
    if not phase.metrics.get("count"):
        return
    exact = context.store.capabilities.indexes[context.index.kind].exact
    _record_passes(phase, answers)
    _record_recall(phase, answers, exact=exact)
    _record_lengths(phase, answers, exact=exact, filtered=where is not None)
    if twice := phase.metrics.get("duplicate_answers"):
        phase.invalidate(f"{twice:,.0f} answers name a row twice")
    _check_rows(context, where, phase, answers.log)


def _record_passes(phase: Phase, answers: PhaseAnswers) -> None:
    """Write into a phase separate metrics of first and later answers to the same queries."""
    first, later = answers.first.summary(), answers.later.summary()
    if not first["count"]:
        return
    phase.metrics["first_pass_count"] = first["count"]
    phase.metrics["later_pass_count"] = later["count"]
    for name, seen in (("first_pass", first), ("later_pass", later)):
        for quantile in ("p50", "p99"):
            metric = f"{name}_{quantile}"
            phase.metrics[metric] = seen[f"latency_{quantile}"]
            if phase.metrics[metric] is None:
                phase.missing[metric] = "no query was asked twice"
    if told := cache_suspicion(phase.metrics):
        phase.remark(f"{told}: answers are remembered, or the machine was disturbed")


def _record_recall(phase: Phase, answers: PhaseAnswers, *, exact: bool) -> None:
    recall = phase.metrics.get("recall_mean")
    if exact and recall is not None and recall < EXACT_FLOOR:
        phase.invalidate(
            f"an exact index that is not exact under the clock: recall {recall:.4f}, at least"
            f" {EXACT_FLOOR:g}"
        )
    elif exact and recall is not None and recall < 1:
        # Rows that tie within float32 count as right, so that none is missed by rounding.
        phase.remark(
            f"an exact index that missed {1 - recall:.2%} of the neighbours: it computes with fewer"
            " digits than float32, or does not search every row"
        )
    before = _recall_by_query(answers.warmup)
    under = _recall_by_query(*answers.timed_recorders)
    both = np.isfinite(before) & np.isfinite(under)
    if both.sum() < LEAST:
        return
    lost = before[both] - under[both]
    phase.metrics["warmup_recall"] = float(before[both].mean())
    error = float(lost.std(ddof=1)) / len(lost) ** 0.5
    if lost.mean() > LOST and lost.mean() > ERRORS * error:
        phase.invalidate(
            f"recall was {before[both].mean():.4f} before the clock started and"
            f" {under[both].mean():.4f} under it, of the same {len(lost)} queries"
        )


def _recall_by_query(*recorders: Recorder) -> NDArray[np.float64]:
    """Mean recall of each query over all its answers; nan for a query without answers."""
    seen = [recorder.query_recall() for recorder in recorders]
    sums, counts = (np.sum(part, axis=0) for part in zip(*seen, strict=True))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums / counts, np.float64)


def _record_lengths(phase: Phase, answers: PhaseAnswers, *, exact: bool, filtered: bool) -> None:
    short, count = phase.metrics.get("incomplete_results"), phase.metrics.get("count")
    if not short or not count:
        return
    said = f"{short:,.0f} of {count:,.0f} answers have fewer rows than there are"
    before = answers.warmup.summary()
    whole = (before["count"] or 0) >= LEAST and not before["incomplete_results"]
    if exact and short > SHORT_EXACT * count:
        phase.invalidate(f"{said}, of an exact index")
    elif whole and not filtered and short > SHORT * count:
        phase.invalidate(f"{said}, and before the clock started none had")
    else:
        phase.remark(said)


def _check_rows(context: Context, where: Filters, phase: Phase, log: AnswerLog) -> None:
    """Check the rows that the logged answers name, and their scores."""
    phase.metrics["kept_answers"] = len(log)
    if not len(log):
        return
    rows = ExpectedRows(context.dataset.ids, context.dataset.vectors)
    named = [one[one >= 0] for one in log.ids]
    every = rows.positions(np.concatenate(named))
    at = np.split(every, np.cumsum([len(one) for one in named])[:-1])
    unknown = sum(bool((one < 0).any()) for one in at)
    phase.metrics["unknown_answers"] = unknown
    if unknown:
        phase.invalidate(
            f"{unknown} of {len(log)} answers looked at name rows that were never written"
        )
    _check_scores(context, phase, log, at)
    if where is not None:
        _check_filters(context.dataset, where, phase, log, at)


def _check_scores(
    context: Context, phase: Phase, log: AnswerLog, at: Sequence[NDArray[np.int64]]
) -> None:
    schema, index = context.schema, context.index
    can = context.store.capabilities.for_index(index.kind)
    whole = [
        nth
        for nth, where in enumerate(at)
        if (where >= 0).all() and len(log.scores[nth]) >= len(where) > 0
    ]
    if not whole:
        return
    told = compare(
        schema.metric,
        can.scores[schema.metric],
        [log.vectors[nth] for nth in whole],
        [context.dataset.vectors[at[nth]] for nth in whole],
        [log.scores[nth][: len(at[nth])] for nth in whole],
        exact=context.store.capabilities.indexes[index.kind].exact_scores,
        error=context.store.capabilities.score_error,
        slack=_SLACK,
    )
    unordered = sum(not is_best_first(can.scores[schema.metric], log.scores[n]) for n in whole)
    if unordered:
        phase.invalidate(
            f"{unordered} of {len(whole)} answers looked at are not best first by their own scores"
        )
    phase.metrics["wrong_scores"] = told.wrong
    if told.wrong:
        phase.invalidate(f"of {len(whole)} answers looked at, {told.detail}")


def _check_filters(
    dataset: Dataset, where: Filters, phase: Phase, log: AnswerLog, at: Sequence[NDArray[np.int64]]
) -> None:
    assert dataset.metadata is not None, "what is filtered by is there"
    wrong = 0
    for query, rows in zip(log.queries, at, strict=True):
        asked = where[query] if isinstance(where, Sequence) else where
        if asked is not None:
            there = dataset.metadata.take(rows[rows >= 0])
            wrong += not filters.evaluate(asked, there).all()
    phase.metrics |= {"checked_answers": len(log), "violations": wrong}
    if wrong:
        phase.invalidate(
            f"{wrong} of {len(log)} answers looked at have rows that their filter does not keep"
        )
