"""Searching by vector and text at once, at several weights: latency, agreement and quality."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field, field_validator

from vectrial.experiments.base import (
    Experiment,
    Target,
    Values,
    as_list,
    refuse_threads,
    search_points,
)
from vectrial.experiments.common import generated_columns, hybrid_truth, sizes
from vectrial.model.capabilities import Hybrid
from vectrial.model.context import Context, search_params
from vectrial.model.errors import StoreError, Unsupported
from vectrial.model.fusion import Blend, Fusion, words
from vectrial.model.inputs import Clients, Count, PositiveSeconds, Seconds, Warmup
from vectrial.model.lane import Lane
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Phase
from vectrial.model.schema import Field as Column
from vectrial.model.schema import FieldType, Schema
from vectrial.model.workload import ClosedLoop
from vectrial.workload.search import HybridQueries, SearchLoad

#: Rows whose texts must find some row before anything is timed.
_PROBES = 20
#: Metrics of a weight that was measured.
_FIGURES = ("qps", "latency_p50", "latency_p95", "latency_p99", "fusion_agreement", "ndcg")
_EVEN = "it weighs both rankings alike at any α between 0 and 1"


class HybridSearch(Experiment):
    """Rows of the dataset are taken out and become queries, by vector and text; the others are
    loaded into a collection of their own with a full-text index, and searched at each weight α of
    the vector: 1 is the vector alone, 0 the text alone.

    text: the text column; unless given, the one whose texts differ most.
    related: a column: rows are relevant to a query that have its value there. Without it there is
        no nDCG.
    alphas: weights of the vector. fusion: how both rankings become one; unless given, the store's
        default. candidates: rows that each side brings, where the store lets one choose.
    queries: rows taken out, at most. search: search parameters; lists are grids.
    sizes: fractions of the rows (at most 1), or numbers of rows, each measured for itself, and all
        of them as well; unless given, all alone. Rows that are taken out are counted among them.
    clients: closed-loop clients. min_s, max_s, warmup_queries: as in `search`, at each α.
    """

    name: ClassVar[str] = "hybrid"
    title: ClassVar[str] = "Search by vector and text"
    place: ClassVar[int] = 85
    report: ClassVar[str] = f"{__package__}.report"
    terms: ClassVar[Mapping[str, str]] = {
        "alpha": "weight of the vector",
        "fusion": "fusion",
        "candidates": "candidates",
        "text": "text column",
        "related": "column that judges",
        "asked": "rows taken out as queries",
    }
    axes: ClassVar[frozenset[str]] = frozenset({"sizes", "search"})

    text: str | None = None
    related: str | None = None
    alphas: Annotated[
        tuple[Annotated[float, Field(ge=0, le=1)], ...],
        BeforeValidator(as_list),
        Field(min_length=1),
    ] = (0.0, 0.25, 0.5, 0.75, 1.0)
    fusion: Fusion | None = None
    candidates: Count = 100
    queries: Count = 500
    search: dict[str, Values] = Field(default_factory=dict)
    sizes: tuple[int | float, ...] | None = None
    clients: Clients = 1
    min_s: Seconds = 1.0
    max_s: PositiveSeconds = 20.0
    warmup_queries: Warmup = 100

    @field_validator("alphas")
    @classmethod
    def _check_distinct(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(sorted(set(value)))

    @field_validator("sizes")
    @classmethod
    def _sizes(cls, value: tuple[int | float, ...] | None) -> tuple[int | float, ...] | None:
        return None if value is None else sizes.check_sizes(value)

    def points(self, target: Target) -> list[OperatingPoint]:
        can = target.capabilities
        hybrid = can.hybrid
        if isinstance(hybrid, str):
            raise Unsupported(f"{target.name} {hybrid}")
        if self.fusion is not None and self.fusion not in hybrid.fusions:
            raise Unsupported(
                f"{target.name} does not fuse by '{self.fusion}'",
                remedy=f"it does by {', '.join(hybrid.fusions)}",
            )
        refuse_threads(target, self.clients)
        points = search_points(target, self.search)
        if self.sizes is None:
            return points
        each = sizes.resolve_sizes(self.sizes, target.data.rows)
        return [point.with_parameters(rows=size) for size in each for point in points]

    def check_point(self, target: Target, point: Mapping[str, Any]) -> None:
        """Apply the common checks, and refuse data without texts or without the named columns."""
        super().check_point(target, point)
        kinds = {field.name: field.type for field in target.data.schema.fields}
        if FieldType.STRING not in kinds.values():
            raise Unsupported("the dataset has no column of texts")
        if self.text is not None and kinds.get(self.text) is not FieldType.STRING:
            raise Unsupported(f"the dataset has no column of texts '{self.text}'")
        if self.related is not None and self.related not in kinds:
            raise Unsupported(f"the dataset has no column '{self.related}'")

    def takes_turns(self, point: Mapping[str, Any], lane: Lane) -> bool:
        return True

    def turns_at(self, point: Mapping[str, Any]) -> int:
        """One turn at each weight."""
        return len(self.alphas)

    def loads(self, context: Context, point: OperatingPoint) -> Generator[SearchLoad | Phase]:
        can = context.store.capabilities.hybrid
        assert isinstance(can, Hybrid), "the plan refuses it"
        fusion = self.fusion or next(iter(can.fusions))
        k = context.k
        candidates = can.candidates(self.candidates, k)
        context.progress(0, 1, "hybrid: taking out queries")
        task = hybrid_truth.make_task(
            context.dataset, self.text, self.related, self.queries, context.seed
        )
        context.progress(0, 1, "hybrid: the exact fusion")
        alphas = [alpha for alpha in self.alphas if can.weighs(alpha)]
        if not alphas:
            raise Unsupported(
                f"{context.store.name}: {_EVEN}",
                remedy="alphas = [0.0, 0.5, 1.0], or some of them",
            )
        blends = [Blend(task.field, alpha, fusion, candidates) for alpha in alphas]
        every = hybrid_truth.exact_fusions(task, k, blends, whole_text=can.whole_text)
        column = Column(task.field, FieldType.STRING, indexed=False, text=True)
        schema = Schema(context.schema.dim, context.schema.metric, (column,))
        with context.second_store("hybrid") as store:
            held = replace(context, store=store, dataset=task.dataset, schema=schema)
            generated_columns.load_collection(held, store, task.dataset, schema)
            _check_text(held, point, Blend(task.field, 0.0, fusion, candidates))
            for blend, exact in zip(blends, every, strict=True):
                load = self._load(held, point, task, exact, blend)
                yield load
                _judge_by_fusion(load.phase, exact)
        for alpha in self.alphas:
            if not can.weighs(alpha):
                yield _unsupported_weight_phase(Blend(task.field, alpha, fusion, candidates), _EVEN)

    def _load(
        self,
        context: Context,
        point: Mapping[str, Any],
        task: hybrid_truth.HybridTruthTask,
        exact: hybrid_truth.ExactFusion,
        blend: Blend,
    ) -> SearchLoad:
        return SearchLoad(
            context,
            point,
            ClosedLoop(self.clients, min_s=self.min_s, max_s=self.max_s),
            warmup_queries=self.warmup_queries,
            about={
                "alpha": blend.alpha,
                "fusion": str(blend.fusion),
                "candidates": blend.candidates,
                "text": blend.field,
                "related": self.related or "",
                "asked": len(task.texts),
            },
            hybrid=HybridQueries(blend, task.texts, exact.truth, exact.judgments),
        )

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time of the exact rankings, and of a phase at each weight."""
        return 2.0 + self.queries * rows * 2e-9 * dim + len(self.alphas) * self.min_s * 1.5


def _judge_by_fusion(phase: Phase, exact: hybrid_truth.ExactFusion) -> None:
    """Name the figures of a phase after what its answers were judged by: the exact fusion, and not
    the nearest neighbours."""
    phase.metrics["fusion_agreement"] = phase.metrics.pop("recall_mean", None)
    if why := phase.missing.pop("recall_mean", None):
        phase.missing["fusion_agreement"] = why
    for name in ("recall_error", "recall_p05", "recall_min"):
        phase.metrics.pop(name, None)
        phase.missing.pop(name, None)
    why = "no operation succeeded"
    if exact.judgments is None:
        why = "no column was named by `related` that says which rows are relevant"
    for name in ("ndcg", "ndcg_exact"):
        if phase.metrics.setdefault(name, None) is None:
            phase.missing[name] = why


def _unsupported_weight_phase(blend: Blend, why: str) -> Phase:
    """Phase without figures for a requested weight that the store lacks, with the reason."""
    now = time.perf_counter_ns()
    params = {"alpha": blend.alpha, "fusion": str(blend.fusion), "text": blend.field}
    return Phase("search", now, now, params, dict.fromkeys(_FIGURES), dict.fromkeys(_FIGURES, why))


def _check_text(context: Context, point: Mapping[str, Any], blend: Blend) -> None:
    """Check that the texts of rows find rows that share a word with them: a store without a text
    index may answer by the vector alone.

    Raises:
        StoreError: some find none: the text index is empty, not up to date, or not asked.
    """
    metadata = context.dataset.metadata
    assert metadata is not None
    column = metadata.column(blend.field)
    texts = [text for text in column.to_pylist() if text]
    step = max(1, len(texts) // _PROBES)
    asked = [text for text in texts[::step][:_PROBES] if words(text)]
    search = context.store.hybrid_searcher(1, search_params(context, point), blend)

    def has_word_hits(text: str) -> bool:
        ids, _ = search(context.dataset.queries[0], text)
        at = np.flatnonzero(np.isin(context.dataset.ids, ids))
        return any(
            set(words(told or "")) & set(words(text)) for told in column.take(at).to_pylist()
        )

    found = sum(map(has_word_hits, asked))
    if found < len(asked):
        raise StoreError(
            f"the text index is empty, not up to date, or not asked: {found} of {len(asked)} texts"
            " of rows found any row with one of their words"
        )
