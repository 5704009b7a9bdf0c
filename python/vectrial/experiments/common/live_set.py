"""Judgment of answers while rows change: rows certainly and possibly alive at a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vectrial.datasets.exact import exact_topk
from vectrial.model.dataset import Dataset
from vectrial.model.metric import distances, ties
from vectrial.model.phase import Phase

#: (from, to), in any unit: the interval in which an event happened at an unknown instant.
Span = tuple[int, int]
BEFORE: Span = (-(1 << 62), -(1 << 62))
NEVER: Span = (1 << 62, 1 << 62)


@dataclass
class Version:
    """A row's vector from one write to the next. born, died: when these took effect, from the
    instant the request was sent at the earliest, to that of its acknowledgement at the latest."""

    id: int
    vector: NDArray[np.float32]
    born: Span = BEFORE
    died: Span = NEVER


@dataclass(frozen=True)
class TimedAnswer:
    """Rows found by a search. span: from sent to answered. query: its number in the dataset."""

    query: int
    span: Span
    ids: NDArray[np.int64]


@dataclass
class RecallBounds:
    """Bounds on the recall of every answer. most, least: the bounds. uncertain: rows whose state
    was not certain. dead: answers that name a row that was certainly gone."""

    most: list[float] = field(default_factory=list)
    least: list[float] = field(default_factory=list)
    uncertain: list[int] = field(default_factory=list)
    dead: int = 0

    def write(self, phase: Phase) -> None:
        """Write the bounds into the search phase, which is invalid if an answer named a dead
        row."""
        if self.most:
            for name, value in (
                ("recall_mean", float(np.mean(self.most))),
                ("recall_min", min(self.most)),
                ("recall_p05", float(np.quantile(self.most, 0.05))),
                ("recall_mean_lower", float(np.mean(self.least))),
                ("uncertain_rows", float(np.mean(self.uncertain))),
            ):
                phase.metrics[name] = value
                phase.missing.pop(name, None)
        phase.metrics["stale_results"] = float(self.dead)
        if self.dead:
            phase.invalidate(f"{self.dead} answers name rows that were not there, or no longer")


def mark_unjudged(phase: Phase, why: str) -> None:
    """Record that it is not known what the searches should have found."""
    for name in ("recall_mean", "recall_min", "recall_p05", "stale_results"):
        phase.missing[name] = why


def judge(
    dataset: Dataset, k: int, versions: Sequence[Version], answers: Sequence[TimedAnswer]
) -> RecallBounds:
    """Judge answers, given every version of every row that was written; all others are the
    dataset's own throughout.

    For a search from s0 to s1, a version is *certainly alive* when it was born (acknowledged)
    before s0 and its end was sent after s1; *possibly alive* when it may have been alive at any
    instant from s0 to s1. With C and P these sets, and the untouched rows in both:

    recall at most: distinct ids among the first k returned, of which a possibly alive version lies
        within the k-th distance among C (ties count), over min(k, |C|). Rows certainly alive are
        thus demanded, and one whose state is not known is not held against the store.
    recall at least: distinct ids among them, of which a certainly alive version lies within the
        k-th distance among P, over min(k, |P|).

    The live set L at the instant that the search was evaluated has C ⊆ L ⊆ P, so that its k-th
    distance lies between those of P and of C, and the recall against it between these two, where
    |C| ≥ k. An id is wrong, and its answer dead, when none of its versions is possibly alive. With
    one client nothing overlaps: C = P, and the two are equal and exact.
    """
    touched = {version.id for version in versions}
    untouched = ~np.isin(dataset.ids, np.fromiter(touched, np.int64, len(touched)))
    rows = {int(id_): row for row, id_ in enumerate(dataset.ids) if untouched[row]}
    still = _unwritten_distances(dataset, k, untouched, [one.query for one in answers])
    own = _Versions(versions, dataset.dim)
    verdict = RecallBounds()
    for answer in answers:
        query = dataset.queries[answer.query]
        certain, possible = own.alive_masks(answer.span)
        every = distances(query, own.vectors, dataset.metric)
        named = answer.ids.tolist()
        known = {id_ for id_ in named if id_ in rows or possible[own.indices(id_)].any()}
        verdict.dead += len(known) < len(set(named))
        there = [id_ for id_ in dict.fromkeys(named[:k]) if id_ in known]
        verdict.uncertain.append(int((possible & ~certain).sum()))
        untouched_hits = [rows[id_] for id_ in there if id_ in rows]
        for judged, among, counted in (
            (verdict.most, certain, possible),
            (verdict.least, possible, certain),
        ):
            held = np.concatenate([every[among], still[answer.query]])
            wanted = min(k, len(held))
            if not wanted:
                judged.append(1.0)
                continue
            kth = float(np.partition(held, wanted - 1)[wanted - 1])
            vectors = [dataset.vectors[row][None] for row in untouched_hits]
            owners = [-1 - at for at in range(len(vectors))]
            for id_ in there:
                if id_ not in rows:
                    at = own.indices(id_)[counted[own.indices(id_)]]
                    vectors.append(own.vectors[at])
                    owners += [id_] * len(at)
            judged.append(_hits(query, vectors, owners, kth, dataset) / wanted)
    verdict.most = [min(1.0, one) for one in verdict.most]
    verdict.least = [min(1.0, one) for one in verdict.least]
    return verdict


def _hits(
    query: NDArray[np.float32],
    vectors: Sequence[NDArray[np.float32]],
    owners: Sequence[int],
    kth: float,
    dataset: Dataset,
) -> int:
    """Number of owners with a vector within the k-th distance."""
    if not owners:
        return 0
    found = np.concatenate(vectors)
    scale = np.linalg.norm(found, axis=1) * float(np.linalg.norm(query))
    far = distances(query, found, dataset.metric)
    near = ties(far, kth, dataset.metric, scale, dataset.dim)
    return len({owner for owner, right in zip(owners, near.tolist(), strict=True) if right})


def _unwritten_distances(
    dataset: Dataset, k: int, untouched: NDArray[np.bool_], queries: Sequence[int]
) -> Mapping[int, NDArray[np.float64]]:
    """Distances of the k nearest unwritten rows, for every query that was sent."""
    asked = sorted(set(queries))
    if not asked or not untouched.any():
        return dict.fromkeys(asked, np.zeros(0))
    most = min(k, int(untouched.sum()))
    near = exact_topk(
        dataset.vectors, dataset.ids, dataset.queries[asked], dataset.metric, most, mask=untouched
    )
    return {query: near.distances[at] for at, query in enumerate(asked)}


class _Versions:
    """Versions as arrays, and which of them an id has."""

    def __init__(self, versions: Sequence[Version], dim: int) -> None:
        self.vectors = np.zeros((0, dim), np.float32)
        if versions:
            self.vectors = np.stack([one.vector for one in versions])
        self._born = np.array([one.born for one in versions], np.int64).reshape(-1, 2)
        self._died = np.array([one.died for one in versions], np.int64).reshape(-1, 2)
        at: dict[int, list[int]] = {}
        for place, one in enumerate(versions):
            at.setdefault(one.id, []).append(place)
        self._at = {id_: np.array(places, np.int64) for id_, places in at.items()}
        self._none = np.zeros(0, np.int64)

    def indices(self, id_: int) -> NDArray[np.int64]:
        return self._at.get(id_, self._none)

    def alive_masks(self, span: Span) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Masks of the versions that are certainly alive, and of those possibly alive."""
        certain = (self._born[:, 1] < span[0]) & (self._died[:, 0] > span[1])
        possible = (self._born[:, 0] <= span[1]) & (self._died[:, 1] >= span[0])
        return certain, possible
