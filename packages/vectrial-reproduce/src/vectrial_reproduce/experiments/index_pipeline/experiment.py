"""Segments through an object store: put, got, indexed and written back; got and searched."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter_ns, process_time_ns
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from vectrial.experiments.base import (
    Experiment,
    Numbers,
    Target,
    Values,
    as_list,
    search_points,
    search_settings,
)
from vectrial.model.context import Context, search_params
from vectrial.model.errors import Unsupported
from vectrial.model.inputs import PositiveSeconds, Seconds
from vectrial.model.lane import Lane
from vectrial.model.metric import LARGER_IS_CLOSER
from vectrial.model.objects import ObjectsKind, ObjectsRequest, ObjectTransport
from vectrial.model.phase import Phase, State
from vectrial.model.results_schema import MetricName
from vectrial.model.schema import FieldType
from vectrial.model.store import Hits, Searcher, Store
from vectrial.model.workload import ClosedLoop
from vectrial.workload import dispatch, ingest
from vectrial.workload.python.closed_loop import closed_loop
from vectrial.workload.queries import draw_queries
from vectrial_reproduce.experiments.index_pipeline import bulk_import
from vectrial_reproduce.experiments.index_pipeline.embedding import text_embedder
from vectrial_reproduce.experiments.index_pipeline.metrics import METRICS
from vectrial_reproduce.experiments.index_pipeline.phases import phase_of, span_phases
from vectrial_reproduce.segments.index_files import SegmentBuilder
from vectrial_reproduce.segments.objects import Objects
from vectrial_reproduce.segments.pipeline import Pipeline, PipelineSettings
from vectrial_reproduce.segments.spans import Stage

_DEFAULT_TRANSPORT = {
    ObjectsKind.FOLDER: ObjectTransport.LOCAL,
    ObjectsKind.MINIO: ObjectTransport.LOOPBACK,
    ObjectsKind.MINIO_DRIVES: ObjectTransport.LOOPBACK,
    ObjectsKind.S3: ObjectTransport.NETWORK,
}
Kinds = Annotated[tuple[ObjectsKind, ...], BeforeValidator(as_list), Field(min_length=1)]
RowCounts = Annotated[
    tuple[Annotated[int, Field(ge=1)], ...], BeforeValidator(as_list), Field(min_length=1)
]
Depths = Annotated[tuple[int, ...], BeforeValidator(as_list), Field(min_length=1)]


class IndexPipeline(Experiment):
    """Cut the dataset into segments, put each into an object store, get it, index it and write the
    index back; then get and open the indexes, and search all of them at once.

    A segment's index is what the store keeps in its folder of these rows alone: any embedded store
    that persists takes part. A server that keeps its files in an object store as a cluster imports
    the segments from there, and its own nodes get, index and write back; `objects` and what
    belongs to them are its own then, and the object store's counters say what was moved.

    objects: "folder" (files of this machine, the floor), "minio", "minio-4-drives" (erasure
        coding), "s3" (any service, see docs/pipeline.md); or a list of them.
    link_mbit: MinIO is also reached over a link of this rate, in 10^6 bits per second, between two
        simulated hosts; a number or a list.
    tls: MinIO is also reached over TLS, on loopback.
    segment_rows: rows of each segment but the last; a number or a list.
    builders: segments that are indexed at once; prefetch: segments that are got ahead of them, 0:
        none. A number or a list.
    part_mb: size of one part of a transfer, in 2^20 bytes; concurrency: parts under way at once.
    embed: the column of texts that the dataset's vectors were made of, which are embedded again
        before a segment is cut; empty: none. They are MiniLM's, on this machine's processors.
    search: search parameters, as of the experiment `search`; each index is searched with them.
    merged: one index of all rows is built and searched as well, at the first point.
    min_s, max_s: times of each search by one client, as in the experiment `search`.

    Phases: `put` (embed, segment, put), `index` (get, check, build, write back), `load`, `search`,
    and of one index of all rows `merged` and `search_merged`; of a server `import` comes between
    `put` and `index`.
    Each step of each segment is a phase `step` of its own. Of each stage the sum over workers and
    the time by the clock are told apart. What failed is tried again, and what was done is kept,
    when the run is resumed.
    """

    name: ClassVar[str] = "index_pipeline"
    title: ClassVar[str] = "Indexes through object storage"
    place: ClassVar[int] = 68
    metrics: ClassVar[tuple[MetricName, ...]] = METRICS
    report: ClassVar[str] = f"{__package__}.report"
    starts_from: ClassVar[State] = State.EMPTY
    mutates: ClassVar[bool] = True  # the store itself holds no rows afterwards
    uses_objects: ClassVar[bool] = True
    axes: ClassVar[frozenset[str]] = frozenset(
        {"objects", "link_mbit", "tls", "segment_rows", "builders", "prefetch"}
    )
    lanes: ClassVar[frozenset[Lane] | None] = frozenset({Lane.EMBEDDED, Lane.NATIVE})
    terms: ClassVar[Mapping[str, str]] = {
        "segment_rows": "rows per segment",
        "builders": "segments indexed at once",
        "prefetch": "segments fetched ahead",
        "objects": "object store",
        "transport": "transport",
        "link_mbit": "link rate",
    }

    objects: Kinds = (ObjectsKind.FOLDER, ObjectsKind.MINIO)
    link_mbit: Annotated[tuple[float, ...], BeforeValidator(as_list)] = ()
    tls: bool = False
    segment_rows: RowCounts = (10_000,)
    builders: Numbers = (1,)
    prefetch: Depths = (1,)
    part_mb: int = Field(default=16, ge=5, le=1024)
    concurrency: int = Field(default=4, ge=1, le=256)
    embed: str = ""
    search: dict[str, Values] = Field(default_factory=dict)
    merged: bool = True
    min_s: Seconds = 1.0
    max_s: PositiveSeconds = 20.0

    @model_validator(mode="after")
    def _check_range(self) -> IndexPipeline:
        if any(not 0 <= depth <= 1000 for depth in self.prefetch):
            raise ValueError("prefetch is between 0 and 1000")
        if any(not 0.1 <= rate <= 1e6 for rate in self.link_mbit):
            raise ValueError("link_mbit is between 0.1 and 1,000,000")
        if (self.link_mbit or self.tls) and ObjectsKind.MINIO not in self.objects:
            raise ValueError('link_mbit and tls are for objects = "minio", not among them')
        return self

    def points(self, target: Target) -> list[dict[str, Any]]:
        kinds = {field.name: field.type for field in target.data.schema.fields}
        if self.embed and kinds.get(self.embed) is not FieldType.STRING:
            raise Unsupported(f"the dataset has no column of texts '{self.embed}' that is loaded")
        if target.capabilities.bulk_import is not None and target.nodes > 1:
            if self.embed:
                raise Unsupported(f"{target.name} imports vectors alone: leave embed out")
            search_points(target, self.search)
            own = {"objects": target.capabilities.bulk_import.service, "transport": "its own"}
            return [{**own, "segment_rows": rows} for rows in dict.fromkeys(self.segment_rows)]
        if target.capabilities.bulk_import is not None:
            raise Unsupported(
                f"{target.name} keeps its files in an object store as a cluster alone: nodes = 2"
            )
        if target.store.kind != "embedded" or not target.capabilities.persistent:
            raise Unsupported(
                f"{target.name} keeps no index of a segment in files of its own, and imports none"
                " from an object store"
            )
        environment = target.store.environment
        if environment is not None and not environment.objects:
            raise Unsupported(f"{target.name} has an environment without a client for objects")
        search_points(target, self.search)
        places: list[dict[str, Any]] = [
            {"objects": str(kind), "transport": str(_DEFAULT_TRANSPORT[kind])}
            for kind in dict.fromkeys(self.objects)
        ]
        if self.tls:
            places.append(
                {"objects": str(ObjectsKind.MINIO), "transport": str(ObjectTransport.TLS)}
            )
        places += [
            {
                "objects": str(ObjectsKind.MINIO),
                "transport": str(ObjectTransport.LINK),
                "link_mbit": rate,
            }
            for rate in dict.fromkeys(self.link_mbit)
        ]
        return [
            {**place, "segment_rows": rows, "builders": builders, "prefetch": prefetch}
            for place in places
            for rows in dict.fromkeys(self.segment_rows)
            for builders in dict.fromkeys(self.builders)
            for prefetch in dict.fromkeys(self.prefetch)
        ]

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        if context.store.capabilities.bulk_import is not None:
            yield from bulk_import.run(context, point, self.part_mb << 20, self.concurrency)
            load = ClosedLoop(1, min_s=self.min_s, max_s=self.max_s)
            model = context.store.capabilities.indexes[context.index.kind].search
            for setting in search_settings(model, self.search):
                yield dispatch.search(context, {**point, **setting}, load)
            return
        assert context.objects is not None
        request = ObjectsRequest(
            ObjectsKind(point["objects"]),
            ObjectTransport(point["transport"]),
            point.get("link_mbit"),
        )
        store, folder = context.store, context.data_dirs[0].with_name("segments")
        settings = PipelineSettings(
            int(point["builders"]), int(point["prefetch"]), int(point["segment_rows"])
        )
        builder = SegmentBuilder(type(store), context.schema, context.index, context.batch_rows)
        with ExitStack() as stack:
            access = stack.enter_context(context.objects(request))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            objects = Objects(access, part_bytes=self.part_mb << 20, concurrency=self.concurrency)
            embed = None
            if self.embed:
                embed = text_embedder(context.dataset, self.embed, context.progress)
            pipeline = Pipeline(
                context.dataset, objects, builder, settings, folder / "scratch", context.progress,
                embed,
            )  # fmt: skip
            yield from self._run_pipeline(context, point, pipeline, folder)
            pipeline.remove()
        if self.merged and self._is_first(point):
            yield from self._build_single_index(context, point, builder, folder)

    def _is_first(self, point: Mapping[str, Any]) -> bool:
        """True for the first point: one index of all rows would be the same for every point."""
        own = (self.objects[0], self.segment_rows[0], self.builders[0], self.prefetch[0])
        names = ("objects", "segment_rows", "builders", "prefetch")
        on_default = point["transport"] == _DEFAULT_TRANSPORT[self.objects[0]]
        return on_default and all(point[name] == one for name, one in zip(names, own, strict=True))

    def _run_pipeline(
        self, context: Context, point: Mapping[str, Any], pipeline: Pipeline, folder: Path
    ) -> Iterator[Phase]:
        """Send the segments through the pipeline, and search the indexes."""
        embedded = (Stage.EMBED,) if self.embed else ()
        for name, step, stages in (
            ("put", pipeline.put, (*embedded, Stage.SEGMENT, Stage.PUT)),
            ("index", pipeline.index, (Stage.GET, Stage.CHECK, Stage.BUILD, Stage.WRITE_BACK)),
        ):
            began, cpu_ns = perf_counter_ns(), process_time_ns()
            outcome = step()
            phase = phase_of(name, point, began, pipeline, outcome, stages)
            phase.metrics["cpu_s"] = (process_time_ns() - cpu_ns) / 1e9
            yield phase
            yield from span_phases(pipeline.spans.select(*stages))
            outcome.raise_failed(name, len(pipeline.bounds))
        began, cpu_ns = perf_counter_ns(), process_time_ns()
        stores, outcome = pipeline.load(folder / "loaded")
        try:
            phase = phase_of("load", point, began, pipeline, outcome, (Stage.LOAD,))
            phase.metrics["cpu_s"] = (process_time_ns() - cpu_ns) / 1e9
            yield phase
            yield from span_phases(pipeline.spans.select(Stage.LOAD))
            outcome.raise_failed("load", len(pipeline.bounds))
            yield from self._searches(context, point, stores, "search")
        finally:
            for store in stores:
                store.close()
            shutil.rmtree(folder / "loaded", ignore_errors=True)

    def _build_single_index(
        self, context: Context, point: Mapping[str, Any], builder: SegmentBuilder, folder: Path
    ) -> Iterator[Phase]:
        """Build a single index of all rows, for comparison."""
        place = folder / "merged"
        place.mkdir(parents=True)
        began = perf_counter_ns()
        store = builder.make(place)
        try:
            store.create(context.schema, context.index)
            for batch in ingest.batches(context.dataset, context.schema, context.batch_rows):
                store.insert(batch)
            ingest.finish(store, context.progress)
            phase = Phase("merged", began, perf_counter_ns(), dict(point))
            phase.metrics["merged_build_s"] = (phase.ended_ns - began) / 1e9
            yield phase
            yield from self._searches(context, point, [store], "search_merged")
        finally:
            store.close()
            shutil.rmtree(folder, ignore_errors=True)

    def _searches(
        self, context: Context, point: Mapping[str, Any], stores: Sequence[Store], name: str
    ) -> Iterator[Phase]:
        """Search over all of these stores, with each setting."""
        truth = context.truth(context.k, None)
        model = context.store.capabilities.indexes[context.index.kind].search
        for number, setting in enumerate(search_settings(model, self.search)):
            params = search_params(context, setting)
            kind = context.store.capabilities.scores[context.schema.metric]
            searcher = union_searcher(
                [store.searcher(context.k, params) for store in stores],
                context.k,
                larger_is_closer=kind in LARGER_IS_CLOSER,
            )
            seed = (context.seed, number, len(stores))
            phase = closed_loop(
                searcher,
                draw_queries(context.dataset, truth, seed, repeat=context.repeat_queries),
                truth,
                min_s=self.min_s,
                max_s=self.max_s,
                seed=context.seed,
                progress=context.progress,
                name=name,
            )
            phase.params = {**phase.params, **point, "k": context.k, **setting}
            phase.metrics["segments"] = float(len(stores))
            yield phase

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Estimated time to move the data at 100 MB/s."""
        return 10.0 + 4 * rows * dim * 4 / 1e8

    def loads_at(self, point: Mapping[str, Any]) -> float:
        """Number of loads: one build, and another if the merged rows are indexed."""
        merged = self.merged and self._is_first({"prefetch": 0, "builders": 0, **point})
        return 2.0 if merged else 1.0


def union_searcher(searchers: Sequence[Searcher], k: int, *, larger_is_closer: bool) -> Searcher:
    """A search of several indexes, one after the other, for the k best of all their rows."""
    if len(searchers) == 1:
        return searchers[0]

    def run(vector: NDArray[np.float32], /) -> Hits:
        found = [search(vector) for search in searchers]
        ids = np.concatenate([one[0] for one in found])
        scores = np.concatenate([one[1] for one in found])
        order = np.argsort(-scores if larger_is_closer else scores, kind="stable")[:k]
        return ids[order], scores[order]

    return run
