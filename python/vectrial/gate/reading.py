"""Checks that read the loaded store and leave it as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Judge
from vectrial.distance import (
    LARGER_IS_CLOSER,
    Metric,
    ScoreKind,
    distances,
    score_from_distance,
)
from vectrial.gate.model import Answer, Ids, Report, Subject, Vectors, difference
from vectrial.gate.sought import FLOAT32_SLACK

#: Queries and rows that a check looks at.
PROBES = 50
#: Searches stop after this time, though not before `LEAST`: a store that scans everything in
#: Python would take minutes for what others do in a moment.
BUDGET_S, LEAST = 3.0, 10

ANSWER_CHECKS = (
    "answer_length",
    "no_duplicate_ids",
    "known_ids",
    "best_first",
    "scores_agree",
    "recall",
)


def row_count(subject: Subject, report: Report) -> None:
    """The store says that it has the rows that were written."""
    count, expected = subject.store.count(), len(subject.rows.ids)
    report("row_count", count == expected, f"{count} of {expected} rows")


def round_trip(subject: Subject, report: Report, rng: np.random.Generator) -> None:
    """Rows read by id are those that were written."""
    if not subject.can.get:
        report("ids_round_trip", None, "the store has no get by id")
        return
    at = np.sort(rng.permutation(len(subject.rows.ids))[:PROBES])
    fault = difference(subject, at, subject.store.get(subject.rows.ids[at]))
    report("ids_round_trip", fault is None, fault or f"{len(at)} rows came back as written")


def answers(subject: Subject, report: Report) -> float:
    """Answers at the generous setting: `ANSWER_CHECKS`. Returns the share of their rows that are
    true neighbours."""
    queries = np.asarray(subject.queries[:PROBES], dtype=np.float32)
    given = subject.answer(queries, least=LEAST, budget_s=BUDGET_S)
    queries = queries[: len(given)]
    wanted = min(subject.k, len(subject.rows.ids))
    odd = [i for i, (ids, _) in enumerate(given) if len(ids) != wanted]
    report("answer_length", not odd, _found(odd, given, f"answers do not have {wanted} rows"))
    twice = [i for i, (ids, _) in enumerate(given) if len(np.unique(ids)) != len(ids)]
    report("no_duplicate_ids", not twice, _found(twice, given, "answers name a row twice"))
    at = [subject.rows.positions(ids) for ids, _ in given]
    unknown = [i for i, where in enumerate(at) if (where < 0).any()]
    report("known_ids", not unknown, _found(unknown, given, "answers name a row never written"))
    score = subject.can.scores[subject.schema.metric]
    worse = [i for i, (_, scores) in enumerate(given) if not _best_first(score, scores)]
    report("best_first", not worse, _found(worse, given, "answers are not best first"))
    if unknown:
        report("scores_agree", False, "cannot be judged: answers name rows never written")
    else:
        report("scores_agree", *_scores_agree(subject, queries, given, at))
    share, floor = true_share(subject, subject.judge, given), subject.on_any_data(subject.floor)
    report("recall", share >= floor, f"{share:.4f} at the generous setting, at least {floor:g}")
    return share


def true_share(subject: Subject, judge: Judge, given: Sequence[Answer]) -> float:
    """Of the distinct rows that answers to the first queries name, the mean share that are true
    neighbours. It is recall where answers are whole: rows that are missing, unknown, named twice
    or more than were asked for are faults of other names."""
    shares = []
    for i, (ids, _) in enumerate(given):
        known = np.unique(ids[: subject.k][subject.rows.positions(ids[: subject.k]) >= 0])
        wanted = min(subject.k, len(subject.rows.ids))
        if len(known):
            shares.append(judge.recall(i, known) * wanted / len(known))
    return float(np.mean(shares)) if shares else 0.0


def _found(bad: list[int], answers: list[Answer], what: str) -> str:
    if not bad:
        return f"0 of {len(answers)} {what}"
    ids = answers[bad[0]][0].tolist()[:12]
    return f"{len(bad)} of {len(answers)} {what}; the first, to query {bad[0]}: {ids}"


def _best_first(kind: ScoreKind, scores: NDArray[np.float32]) -> bool:
    scores = scores[np.isfinite(scores)]  # what is no number is no score: `scores_agree`
    steps = np.diff(scores.astype(np.float64))
    slack = 1e-6 * np.abs(scores).max(initial=0)
    return bool((steps <= slack).all() if kind in LARGER_IS_CLOSER else (steps >= -slack).all())


def _scores_agree(
    subject: Subject, queries: Vectors, answers: list[Answer], at: list[Ids]
) -> tuple[bool, str]:
    """Against distances computed again in float64."""
    metric, kind = subject.schema.metric, subject.can.scores[subject.schema.metric]
    got: list[float] = []
    want: list[float] = []
    scale: list[float] = []
    for query, (_, scores), where in zip(queries, answers, at, strict=True):
        vectors = subject.rows.vectors[where]
        want += score_from_distance(kind, distances(query, vectors, metric)).tolist()
        got += scores.tolist()
        scale += _scale(query, vectors, metric).tolist()
    g, w, s = np.array(got), np.array(want), np.array(scale)
    if kind is ScoreKind.INVERSE_L2:  # compared as the distances they stand for
        with np.errstate(divide="ignore"):
            g, w, s = 1.0 / g - 1.0, 1.0 / w - 1.0, s + 1.0
    if kind in (ScoreKind.L2, ScoreKind.INVERSE_L2):
        g, w, s = g * np.abs(g), w * w, s * s
    elif kind is ScoreKind.L2_SQUARED:
        s = s * s
    if not subject.kind.exact_scores:
        return _estimates_agree(g, w)
    off = np.abs(g - w)
    bad = ~(off <= FLOAT32_SLACK * s + 1e-5 * np.abs(w))  # a score that is no number is bad
    worst = int(np.argmax(np.where(np.isfinite(off), off - FLOAT32_SLACK * s, np.inf)))
    detail = f"{int(bad.sum())} of {len(g)} scores differ from the {kind} computed again"
    if bad.any():
        detail += f"; the worst is {got[worst]:.6g}, computed {want[worst]:.6g}"
    return not bad.any(), detail


def _scale(query: Vectors, vectors: Vectors, metric: Metric) -> NDArray[np.float64]:
    """The size of what is added up: rounding is relative to it, not to the result."""
    if metric is Metric.COSINE:
        return np.ones(len(vectors))
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
    query_norm = float(np.linalg.norm(query.astype(np.float64)))
    return np.asarray(norms + query_norm if metric is Metric.L2 else norms * query_norm)


def _estimates_agree(got: NDArray[Any], want: NDArray[Any]) -> tuple[bool, str]:
    """Scores from compressed vectors must still say the same: correlated, and of the same size."""
    correlation = float(np.corrcoef(got, want)[0, 1]) if np.ptp(want) > 0 else 1.0
    off = float(np.median(np.abs(got - want) / np.maximum(np.abs(want), 1e-30)))
    detail = f"estimates: correlation {correlation:.3f}, median relative error {off:.2f}"
    return correlation >= 0.8 and off <= 0.5, detail
