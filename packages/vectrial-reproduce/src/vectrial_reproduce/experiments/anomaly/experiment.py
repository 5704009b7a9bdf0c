"""Anomalies among the normal things of a class: found fast, and found at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from time import perf_counter_ns
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from vectrial.experiments.base import (
    Experiment,
    Numbers,
    Returns,
    Target,
    Values,
    client_points,
    refuse_threads,
    search_points,
)
from vectrial.model.capabilities import Returning
from vectrial.model.context import (
    Context,
)
from vectrial.model.dataset import Truth
from vectrial.model.errors import StoreError, Unsupported
from vectrial.model.filters import Eq, Filters
from vectrial.model.inputs import PositiveSeconds, Seconds, Warmup
from vectrial.model.labels import ANOMALOUS, CLASS, find_duplicates
from vectrial.model.lane import Lane
from vectrial.model.metric import Metric, distances
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import (
    Phase,
)
from vectrial.model.results_schema import MetricName
from vectrial.model.workload import ClosedLoop
from vectrial.stores.common.arrow import ids_of, vectors_of
from vectrial.workload import dispatch
from vectrial_reproduce.detection import auroc, share_below, threshold_for
from vectrial_reproduce.experiments.anomaly.metrics import METRICS

Score = Literal["nearest", "mean"]

#: Rows read back in one request.
_BATCH = 100
#: Reason why the server's resources are not reported while answers are judged.
_UNTIMED = "answers are judged here, which is not timed"
#: The likeness of a query that nothing was found for: the least cosine.
_NOTHING = -1.0


class Anomaly(Experiment):
    """Normal rows are stored with their class; normal queries and anomalies are asked under a
    filter on their class. The client compares each with the vectors found: the cosine to them is
    its likeness, and an anomaly is announced where that is below a threshold.

    score: the likeness: to the nearest of the k found, or the mean of all.
    false_alarms: the share of normal things that may be announced. Thresholds are chosen for it on
        held-out normal queries, a `calibration` share of each class, which are not judged by them.
    fixed: a threshold that is the same for all, judged beside the chosen ones.
    search: search parameters; lists are grids. clients: closed-loop clients, a number or a list.
    returns: what the timed searches bring of each row found; min_s, max_s: as of search.
    timed: the queries of the timed searches: "all", or "anomalies". copies: so often each stands
        among them, as the queries of a published report do. Neither changes what is judged.
    """

    name: ClassVar[str] = "anomaly"
    title: ClassVar[str] = "Anomalies among the normal"
    place: ClassVar[int] = 80
    report: ClassVar[str] = f"{__package__}.report"
    metrics: ClassVar[tuple[MetricName, ...]] = METRICS
    terms: ClassVar[Mapping[str, str]] = {
        "score": "likeness",
        "false_alarms": "false alarms allowed",
        "calibration": "share held out for thresholds",
        "fixed": "fixed threshold",
        "of": "class",
    }
    uses_filters: ClassVar[bool] = True
    axes: ClassVar[frozenset[str]] = frozenset({"search", "returns", "clients"})
    lanes: ClassVar[frozenset[Lane] | None] = frozenset(Lane)

    score: Score = "nearest"
    false_alarms: float = Field(default=0.05, gt=0, lt=1)
    calibration: float = Field(default=0.5, gt=0, lt=1)
    fixed: float = Field(default=0.85, ge=-1, le=1)
    search: dict[str, Values] = Field(default_factory=dict)
    clients: Numbers = (1,)
    returns: Returns = (Returning.VECTORS,)
    min_s: Seconds = 1.0
    max_s: PositiveSeconds = 20.0
    warmup_queries: Warmup = 100
    timed: Literal["all", "anomalies"] = "all"
    copies: int = Field(default=1, ge=1, le=100)

    def points(self, target: Target) -> list[OperatingPoint]:
        can = target.capabilities
        if not can.filters:
            raise Unsupported(f"{target.name} has no search under a filter")
        if "eq" not in can.filters:
            raise Unsupported(f"{target.name} cannot filter with 'eq'")
        return client_points(self.clients, search_points(target, self.search, self.returns))

    def check_point(self, target: Target, point: Mapping[str, Any]) -> None:
        """Refuse data without labelled queries, in addition to what every experiment refuses."""
        super().check_point(target, point)
        refuse_threads(target, point["clients"])
        named = {field.name for field in target.data.schema.fields}
        if CLASS not in named or not {CLASS, ANOMALOUS} <= target.data.query_fields:
            raise Unsupported(
                f"the dataset does not say of rows and queries which '{CLASS}' they are, and of"
                f" queries whether each '{ANOMALOUS}'",
                remedy='datasets = "texture-defects-1280", or `vectrial data pictures FOLDER`',
            )

    def clients_at(self, point: Mapping[str, Any]) -> int | None:
        """The number of clients at the point."""
        return int(point["clients"])

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        asked = _anomaly_queries(context)
        where = [Eq(CLASS, name) for name in asked.classes]
        phase = self._timed_phase(asked, point)
        phase.metrics |= {"duplicate_queries": asked.twice, "stored_queries": asked.stored}
        params = dict(phase.params)
        if (self.timed, self.copies) != ("all", 1):
            phase.params = {**params, "timed": self.timed, "copies": self.copies}
        yield phase
        yield from self._judge_queries(asked, params, point, where)

    def _timed_phase(self, queries: _AnomalyQueries, point: Mapping[str, Any]) -> Phase:
        """The timed searches."""
        context, classes = queries.context, queries.classes
        every = np.arange(len(classes))
        if self.timed == "anomalies":
            every = every[queries.anomalous]
        if not len(every):
            raise StoreError("no query is of an anomaly")
        if self.copies > 1 or len(every) < len(classes):
            every = np.tile(every, self.copies)
            context = _with_queries(context, every, classes)
        where = [Eq(CLASS, classes[at]) for at in every.tolist()]
        load = ClosedLoop(int(point["clients"]), min_s=self.min_s, max_s=self.max_s)
        return dispatch.search(
            context, point, load, warmup_queries=self.warmup_queries, where=where
        )

    def _judge_queries(
        self,
        queries: _AnomalyQueries,
        params: Mapping[str, Any],
        point: Mapping[str, Any],
        where: Filters,
    ) -> Iterator[Phase]:
        """Run every query once more, untimed, and judge its answer. Yields a phase for each class,
        one for their mean, and one for all classes together under one threshold."""
        context = queries.context
        rule = {
            "score": self.score,
            "false_alarms": self.false_alarms,
            "calibration": self.calibration,
            "fixed": self.fixed,
        }
        params = {**params, **rule}
        started = perf_counter_ns()
        found = dispatch.answers(context, point, where)
        truth = context.truth(context.k, where)
        stored = _read_back(context, found)
        own = dict(zip(context.dataset.ids.tolist(), context.dataset.vectors, strict=True))
        compared = perf_counter_ns()
        likeness = self._likeness(context, found, stored)
        each_us = (perf_counter_ns() - compared) / 1e3 / len(found)
        exact = self._likeness(context, [row[row >= 0] for row in truth.ids], own)
        recall = _recalls(found, truth)
        held_out = self._held_out(queries, context.seed)
        ended = perf_counter_ns()

        def phase(name: str, members: NDArray[np.bool_], **more: Any) -> Phase:
            made = Phase(name, started, ended, {**params, **more}, unsampled=_UNTIMED)
            known = (likeness[members], exact[members])
            flags = (queries.anomalous[members], held_out[members])
            made.metrics, made.missing = self._figures(*known, *flags)
            made.metrics["recall_mean"] = float(recall[members].mean())
            return made

        names = np.array(queries.classes)
        classes = [phase("class", names == name, of=name) for name in sorted(set(queries.classes))]
        yield from classes
        mean = Phase("classes", started, ended, dict(params), unsampled=_UNTIMED)
        mean.metrics, mean.missing = _means(classes)
        mean.metrics["client_cosine"] = each_us
        yield mean
        yield phase("together", np.ones(len(names), dtype=bool))

    def _likeness(
        self,
        context: Context,
        found: Sequence[NDArray[np.int64]],
        vectors: Mapping[int, NDArray[np.float32]],
    ) -> NDArray[np.float64]:
        """Likeness of each query, from the cosines to the rows found for it."""
        out = np.full(len(found), _NOTHING)
        for at, (query, ids) in enumerate(zip(context.dataset.queries, found, strict=True)):
            if len(ids):
                near = np.stack([vectors[id_] for id_ in ids.tolist()])
                cosines = 1.0 - distances(query, near, Metric.COSINE)
                out[at] = cosines.max() if self.score == "nearest" else cosines.mean()
        return out

    def _held_out(self, queries: _AnomalyQueries, seed: int) -> NDArray[np.bool_]:
        """Mask of the normal queries for choosing thresholds: a random share of each class."""
        out = np.zeros(len(queries.classes), dtype=bool)
        names = np.array(queries.classes)
        rng = np.random.default_rng(seed)
        for name in sorted(set(queries.classes)):
            normal = rng.permutation(np.flatnonzero((names == name) & ~queries.anomalous))
            out[normal[: round(self.calibration * len(normal))]] = True
        return out

    def _figures(
        self,
        likeness: NDArray[np.float64],
        exact: NDArray[np.float64],
        anomalous: NDArray[np.bool_],
        held_out: NDArray[np.bool_],
    ) -> tuple[dict[str, float | None], dict[str, str]]:
        """Detection figures from the measured likeness and from the likeness under exact search."""
        judged = ~anomalous & ~held_out
        figures: dict[str, float | None] = {
            "anomalous_queries": float(anomalous.sum()),
            "normal_queries": float(judged.sum()),
            "held_out_queries": float(held_out.sum()),
            "fixed_detection_rate": share_below(likeness[anomalous], self.fixed),
            "fixed_false_alarm_rate": share_below(likeness[judged], self.fixed),
        }
        for suffix, of in (("", likeness), ("_exact", exact)):
            threshold = threshold_for(of[held_out], self.false_alarms)
            figures[f"auroc{suffix}"] = auroc(of[~anomalous], of[anomalous])
            figures[f"threshold{suffix}"] = threshold
            for name, members in (("detection_rate", anomalous), ("false_alarm_rate", judged)):
                share = None if threshold is None else share_below(of[members], threshold)
                figures[f"{name}{suffix}"] = share
        missing = {}
        few = (
            f"{int(held_out.sum())} held-out normal queries are too few for a false-alarm rate of"
            f" {self.false_alarms:g}"
        )
        for name, value in figures.items():
            if value is None:
                lacks_threshold = figures["threshold"] is None and not name.startswith("auroc")
                missing[name] = few if lacks_threshold else "no query of one of the two kinds"
        return figures, missing

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """The least time of a phase, plus half of that, and every query once more."""
        return 3.0 + self.min_s * 1.5


@dataclass(frozen=True)
class _AnomalyQueries:
    """The queries that say something new. context: with these queries alone. twice, stored: copies
    of others and of stored rows, which are left out."""

    context: Context
    classes: tuple[str, ...]
    anomalous: NDArray[np.bool_]
    twice: int
    stored: int


def _anomaly_queries(context: Context) -> _AnomalyQueries:
    """The queries without duplicates.

    Raises:
        StoreError: no query is left.
    """
    dataset = context.dataset
    assert dataset.metadata is not None, "the plan refuses it"
    assert dataset.query_metadata is not None, "the plan refuses it"
    classes = [str(name) for name in dataset.query_metadata.column(CLASS).to_pylist()]
    anomalous = np.array(dataset.query_metadata.column(ANOMALOUS).to_pylist(), dtype=bool)
    stored_classes = [str(name) for name in dataset.metadata.column(CLASS).to_pylist()]
    twice, stored = find_duplicates(dataset.queries, classes, dataset.vectors, stored_classes)
    keep = np.flatnonzero(~(twice | stored))
    if not len(keep):
        raise StoreError("every query is a copy of another, or of a stored row")
    if len(keep) < len(classes):
        context = _with_queries(context, keep, classes)
    return _AnomalyQueries(
        context,
        tuple(classes[i] for i in keep.tolist()),
        anomalous[keep],
        int(twice.sum()),
        int(stored.sum()),
    )


def _with_queries(context: Context, keep: NDArray[np.int64], classes: Sequence[str]) -> Context:
    """The context with only these queries of the dataset, in this order."""
    whole, every = context.truth, [Eq(CLASS, name) for name in classes]

    def truth(k: int, where: Filters) -> Truth:
        return select_queries(whole(k, every if where is not None else None), keep)

    dataset = replace(context.dataset, queries=context.dataset.queries[keep])
    return replace(context, dataset=dataset, truth=truth)


def select_queries(truth: Truth, queries: NDArray[np.int64]) -> Truth:
    """The truth of the queries `queries`, in this order; a query may occur several times."""
    begins, ends = truth.accept_offsets[queries], truth.accept_offsets[queries + 1]
    parts = [truth.accept_ids[b:e] for b, e in zip(begins, ends, strict=True)]
    return Truth(
        truth.k,
        truth.ids[queries],
        truth.distances[queries],
        truth.available[queries],
        np.concatenate([[0], np.cumsum(ends - begins)]).astype(np.int64),
        np.concatenate(parts),
    )


def _read_back(
    context: Context, found: Sequence[NDArray[np.int64]]
) -> dict[int, NDArray[np.float32]]:
    """The vectors of all rows found, read back from the store; if it cannot read rows by id, as
    they were stored."""
    if not context.store.capabilities.for_index(context.index.kind).get:
        ids, vectors = context.dataset.ids, context.dataset.vectors
        return dict(zip(ids.tolist(), vectors, strict=True))
    wanted = np.unique(np.concatenate(found))
    out: dict[int, NDArray[np.float32]] = {}
    for start in range(0, len(wanted), _BATCH):
        rows = context.store.get(wanted[start : start + _BATCH])
        out.update(zip(ids_of(rows).tolist(), vectors_of(rows), strict=True))
    missing = set(wanted.tolist()) - out.keys()
    if missing:
        raise StoreError(
            f"{len(missing)} rows that were found cannot be read, one is {missing.pop()}"
        )
    return out


def _recalls(found: Sequence[NDArray[np.int64]], truth: Truth) -> NDArray[np.float64]:
    """Recall of the first k rows of each answer, counting ties as right; shape (q,)."""
    out = np.empty(len(found))
    for at, ids in enumerate(found):
        begin, end = truth.accept_offsets[at : at + 2]
        right = np.isin(np.unique(ids[: truth.k]), truth.accept_ids[begin:end]).sum()
        out[at] = min(right, truth.available[at]) / max(1, truth.available[at])
    return out


def _means(classes: Sequence[Phase]) -> tuple[dict[str, float | None], dict[str, str]]:
    """Means over the classes, but sums of counts. A figure that one class lacks is missing."""
    metrics: dict[str, float | None] = {}
    missing: dict[str, str] = {}
    for name in classes[0].metrics:
        values = [phase.metrics[name] for phase in classes]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            lacking = next(phase for phase in classes if phase.metrics[name] is None)
            metrics[name] = None
            missing[name] = f"of class '{lacking.params['of']}': {lacking.missing[name]}"
        else:
            metrics[name] = sum(known) if name.endswith("_queries") else fmean(known)
    return metrics, missing
