"""Checks that read the loaded store and do not change it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing

import numpy as np

from vectrial._engine import Judge
from vectrial.datasets.exact import exact_topk
from vectrial.gate.model import Answer, GateResults, Ids, Subject, Vectors, first_difference
from vectrial.gate.row_search import allowed_misses
from vectrial.gate.scores import compare, is_best_first
from vectrial.model.errors import UserError
from vectrial.model.metric import (
    Metric,
    distances,
    rounding_of,
    tie_tolerance,
)

#: Queries and rows that a check uses.
PROBES = 50
#: Searches stop after this time, though not before `LEAST`: a store that scans everything in
#: Python would take minutes for what others do in a moment.
BUDGET_S, LEAST = 3.0, 10
#: Seconds in which nodes have to agree: where a quorum acknowledges a write, the other nodes may
#: have it a moment later. Seconds between two looks at them.
AGREE_S, _AGAIN_S = 30.0, 0.5

ANSWER_CHECKS = (
    "answer_length",
    "no_duplicate_ids",
    "known_ids",
    "best_first",
    "scores_agree",
    "recall",
)


def check_row_count(subject: Subject, report: GateResults) -> None:
    """Check that the store's row count is the number of rows written."""
    count, expected = subject.store.count(), len(subject.rows.ids)
    report("row_count", count == expected, f"{count} of {expected} rows")


def check_round_trip(subject: Subject, report: GateResults, rng: np.random.Generator) -> None:
    """Check that rows read by id are those that were written."""
    if not subject.capabilities.get:
        report("ids_round_trip", None, "the store has no get by id")
        return
    at = np.sort(rng.permutation(len(subject.rows.ids))[:PROBES])
    fault = first_difference(subject, at, subject.store.get(subject.rows.ids[at]))
    report("ids_round_trip", fault is None, fault or f"{len(at)} rows came back as written")


def check_nodes_agree(subject: Subject, report: GateResults, rng: np.random.Generator) -> None:
    """Check that every node of a cluster has the loaded rows within `AGREE_S`."""
    wanted, ends = np.sort(rng.permutation(subject.rows.ids)[:PROBES]), time.monotonic() + AGREE_S
    while (faults := _differences(subject, wanted)) and time.monotonic() < ends:
        time.sleep(_AGAIN_S)
    report("nodes_agree", not faults, "; ".join(faults) or f"{len(subject.at_node)} nodes agree")


def _differences(subject: Subject, ids: Ids) -> list[str]:
    """Differences between a node's rows and the loaded rows. ids: ids of rows to read."""
    rows, version = len(subject.rows.ids), subject.store.version()
    length, faults = min(subject.k, rows), list[str]()
    for number, opened in enumerate(subject.at_node, 1):
        with closing(opened()) as store:
            store.refresh()
            if (other := store.version()) != version:
                faults.append(f"node {number} has version {other}, and the first one {version}")
            if (count := store.count()) != rows:
                faults.append(f"node {number} counts {count:,} of {rows:,} rows")
            if subject.capabilities.get and (there := store.get(ids).num_rows) != len(ids):
                faults.append(f"node {number} has {there} of {len(ids)} rows read by id")
            search = store.searcher(subject.k, subject.nearly_exact_params(fresh=True))
            short = sum(len(search(query)[0]) != length for query in subject.queries[:LEAST])
            if short:
                faults.append(f"{short} of {LEAST} answers of node {number} are short")
    return faults


def check_index(subject: Subject, report: GateResults) -> None:
    """Check that the server's description of the built index matches the request."""
    try:
        found = subject.store.describe_open()
    except UserError as error:
        report("index_is_asked", None, f"the server's description is not read: {error}")
        return
    asked = {"index": subject.index.kind, **subject.index.params.model_dump(exclude_none=True)}
    built = {"index": found.index, **found.params}
    known = [name for name in asked if name in built]
    differ = [name for name in known if built[name] != asked[name]]
    wrong = [f"{name} {built[name]}, not {asked[name]}" for name in differ]
    told = ", ".join(f"{name} {built[name]}" for name in known)
    report("index_is_asked", not wrong, f"the server says {', '.join(wrong) or told}")


def check_answers(subject: Subject, report: GateResults) -> float:
    """Run `ANSWER_CHECKS` on answers at the generous setting. Returns the share of their rows that
    are true neighbours."""
    queries = np.asarray(subject.queries[:PROBES], dtype=np.float32)
    given = subject.answer(queries, least=LEAST, budget_s=BUDGET_S)
    queries = queries[: len(given)]
    answer_length = min(subject.k, rows := len(subject.rows.ids))
    # A graph that has lost sight of a few rows cannot answer with all of them.
    seen = rows if subject.kind.exact else rows - allowed_misses(rows, subject.floor)
    least = min(answer_length, seen)
    odd = [i for i, (ids, _) in enumerate(given) if not least <= len(ids) <= answer_length]
    report(
        "answer_length",
        not odd,
        _describe_bad(odd, given, f"answers do not have {answer_length} rows"),
    )
    twice = [i for i, (ids, _) in enumerate(given) if len(np.unique(ids)) != len(ids)]
    report("no_duplicate_ids", not twice, _describe_bad(twice, given, "answers name a row twice"))
    at = [subject.rows.positions(ids) for ids, _ in given]
    unknown = [i for i, where in enumerate(at) if (where < 0).any()]
    report(
        "known_ids", not unknown, _describe_bad(unknown, given, "answers name a row never written")
    )
    score = subject.capabilities.scores[subject.schema.metric]
    worse = [i for i, (_, scores) in enumerate(given) if not is_best_first(score, scores)]
    report("best_first", not worse, _describe_bad(worse, given, "answers are not best first"))
    if unknown:
        report("scores_agree", False, "cannot be judged: answers name rows never written")
    else:
        report("scores_agree", *_scores_agree(subject, queries, given, at))
    share, floor = true_share(subject, subject.judge, given), subject.adjust_floor(subject.floor)
    reached, detail = share, f"{share:.4f} at the generous setting, at least {floor:g}"
    if share < floor and (rounding := _rounding(subject)):
        reached = _share_within_rounding(subject, queries, given, rounding)
        detail += f"; {reached:.4f} if rows that its arithmetic does not tell apart count as one"
    report("recall", reached >= floor, detail)
    return share


def _rounding(subject: Subject) -> tuple[int, Callable[[float], float]] | None:
    """The declared rounding with which the store compares distances. The result is the power of the
    distance that it compares, and a function of the query's length that gives the largest
    difference it cannot tell apart. None if distances are as fine as any float32 sum."""
    score = subject.capabilities.scores[subject.schema.metric]
    if subject.schema.metric is Metric.L2 and subject.capabilities.l2_of_products:
        longest = float(np.linalg.norm(subject.rows.vectors, axis=1).max())
        share = tie_tolerance(subject.schema.dim)
        return 2, lambda length: share * (length + longest) ** 2
    absolute = rounding_of(score)
    return (1, lambda _: absolute) if absolute else None


def _share_within_rounding(
    subject: Subject,
    queries: Vectors,
    answers: Sequence[Answer],
    rounding: tuple[int, Callable[[float], float]],
) -> float:
    """Mean share of rows in the answers that are, within the rounding, as near as the k-th
    neighbour or nearer."""
    rows, metric, (power, coarse) = subject.rows, subject.schema.metric, rounding
    truth = exact_topk(rows.vectors, rows.ids, queries, metric, subject.k)
    shares = []
    for query, (ids, _), found, available in zip(
        queries, answers, truth.distances, truth.available, strict=True
    ):
        known = rows.positions(np.unique(ids))
        near = distances(query, rows.vectors[known[known >= 0]], metric) ** power
        kth = found[available - 1] ** power
        right = near <= kth + coarse(float(np.linalg.norm(query)))
        shares.append(float(right.mean()) if len(right) else 0.0)
    return float(np.mean(shares))


def true_share(subject: Subject, judge: Judge, answers: Sequence[Answer]) -> float:
    """Mean share of true neighbours among the distinct rows in the answers to the first queries. It
    equals the recall if answers are complete: other checks cover rows that are missing, unknown,
    repeated or more than requested."""
    shares = []
    for i, (ids, _) in enumerate(answers):
        known = np.unique(ids[: subject.k][subject.rows.positions(ids[: subject.k]) >= 0])
        answer_length = min(subject.k, len(subject.rows.ids))
        if len(known):
            shares.append(judge.recall(i, known) * answer_length / len(known))
    return float(np.mean(shares)) if shares else 0.0


def _describe_bad(bad: list[int], answers: list[Answer], what: str) -> str:
    if not bad:
        return f"0 of {len(answers)} {what}"
    ids = answers[bad[0]][0].tolist()[:12]
    return f"{len(bad)} of {len(answers)} {what}; the first, to query {bad[0]}: {ids}"


def _scores_agree(
    subject: Subject, queries: Vectors, answers: list[Answer], at: list[Ids]
) -> tuple[bool, str]:
    """Compare the scores with distances recomputed in float64."""
    metric = subject.schema.metric
    comparison = compare(
        metric,
        subject.capabilities.scores[metric],
        list(queries),
        [subject.rows.vectors[where] for where in at],
        [scores for _, scores in answers],
        exact=subject.kind.exact_scores,
        error=subject.capabilities.score_error,
    )
    return comparison.wrong == 0, comparison.detail
