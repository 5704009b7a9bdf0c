"""Checks that read the loaded store and leave it as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial.distance import Metric, ScoreKind, distances, score_from_distance
from vectrial.gate.model import Answer, Report, Subject, Vectors, difference

#: Queries and rows that a check looks at.
PROBES = 50
#: How far a float32 computation may be off, relative to the scale of what it adds up.
FLOAT32_SLACK = 2e-5
#: What an index that declares a floor on structured data must reach on any data: a tenth of its
#: floor, since uniform data in many dimensions has no structure for a graph to follow.
SHARE_OF_FLOOR = 0.1
_LARGER_IS_CLOSER = (ScoreKind.INNER_PRODUCT, ScoreKind.COSINE_SIMILARITY)

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


def answers(subject: Subject, report: Report) -> None:
    """Answers at the generous setting: `ANSWER_CHECKS`."""
    queries = np.asarray(subject.queries[:PROBES], dtype=np.float32)
    given = subject.answer(queries)
    wanted = min(subject.k, len(subject.rows.ids))
    short = [i for i, (ids, _) in enumerate(given) if len(ids) != wanted]
    report("answer_length", not short, _found(short, given, f"answers without {wanted} rows"))
    twice = [i for i, (ids, _) in enumerate(given) if len(set(ids.tolist())) != len(ids)]
    report("no_duplicate_ids", not twice, _found(twice, given, "answers name a row twice"))
    position = {int(id_): i for i, id_ in enumerate(subject.rows.ids)}
    unknown = [
        i for i, (ids, _) in enumerate(given) if any(id_ not in position for id_ in ids.tolist())
    ]
    report("known_ids", not unknown, _found(unknown, given, "answers name a row never written"))
    score = subject.can.scores[subject.schema.metric]
    worse = [i for i, (_, scores) in enumerate(given) if not _best_first(score, scores)]
    report("best_first", not worse, _found(worse, given, "answers are not best first"))
    if unknown:
        report("scores_agree", False, "cannot be judged: answers name rows never written")
    else:
        report("scores_agree", *_scores_agree(subject, queries, given, position))
    recall = float(np.mean([subject.judge.recall(i, ids) for i, (ids, _) in enumerate(given)]))
    share = 1.0 if subject.kind.exact else SHARE_OF_FLOOR
    floor = subject.kind.recall_floor * share
    report("recall", recall >= floor, f"{recall:.4f} at the generous setting, at least {floor:g}")


def _found(bad: list[int], answers: list[Answer], what: str) -> str:
    if not bad:
        return f"0 of {len(answers)} {what}"
    ids = answers[bad[0]][0].tolist()[:12]
    return f"{len(bad)} of {len(answers)} {what}; the first, to query {bad[0]}: {ids}"


def _best_first(kind: ScoreKind, scores: NDArray[np.float32]) -> bool:
    steps = np.diff(scores.astype(np.float64))
    slack = 1e-6 * np.abs(scores).max(initial=0)
    return bool((steps <= slack).all() if kind in _LARGER_IS_CLOSER else (steps >= -slack).all())


def _scores_agree(
    subject: Subject, queries: Vectors, answers: list[Answer], position: Mapping[int, int]
) -> tuple[bool, str]:
    """Against distances computed again in float64."""
    metric, kind = subject.schema.metric, subject.can.scores[subject.schema.metric]
    got: list[float] = []
    want: list[float] = []
    scale: list[float] = []
    for query, (ids, scores) in zip(queries, answers, strict=True):
        vectors = subject.rows.vectors[[position[int(id_)] for id_ in ids]]
        want += score_from_distance(kind, distances(query, vectors, metric)).tolist()
        got += scores.tolist()
        scale += _scale(query, vectors, metric).tolist()
    g, w, s = np.array(got), np.array(want), np.array(scale)
    if kind is ScoreKind.L2:
        g, w, s = g * np.abs(g), w * w, s * s
    elif kind is ScoreKind.L2_SQUARED:
        s = s * s
    if not subject.kind.exact_scores:
        return _estimates_agree(g, w)
    off = np.abs(g - w)
    bad = off > FLOAT32_SLACK * s + 1e-5 * np.abs(w)
    worst = int(np.argmax(off - FLOAT32_SLACK * s))
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
