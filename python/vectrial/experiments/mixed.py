"""Searching while rows come, change and go: every answer judged against the rows alive then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter_ns, process_time_ns
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, model_validator

from vectrial._engine import Recorder
from vectrial.datasets.truth import exact_topk
from vectrial.distance import distances, ties
from vectrial.errors import Unsupported
from vectrial.experiments.base import Context, Experiment, Phase, search_params, search_points
from vectrial.load.bulk import make_batch
from vectrial.load.embedded import FATAL, describe
from vectrial.load.record import Outset, phase_of
from vectrial.stores.base import Index, Searcher, Store

SEARCH, INSERT, UPDATE, DELETE = KINDS = ("search", "insert", "update", "delete")
_NEVER = 1 << 62


class Mixed(Experiment):
    """One caller who searches, inserts, updates and deletes in random order, by the given shares.

    Since every write is acknowledged before the next request is sent, the rows alive at each
    search are known exactly, and so is what it should have found.

    operations: in all; searches, inserts, updates, deletes: their shares, in any unit.
    max_s: no request is sent later than this. search: search parameters (no lists).
    """

    name: ClassVar[str] = "mixed"
    title: ClassVar[str] = "Searching while rows change"
    mutates: ClassVar[bool] = True
    axes: ClassVar[frozenset[str]] = frozenset({"search"})

    operations: int = Field(default=2000, ge=10, le=1_000_000)
    searches: float = Field(default=0.7, gt=0)
    inserts: float = Field(default=0.1, ge=0)
    updates: float = Field(default=0.1, ge=0)
    deletes: float = Field(default=0.1, ge=0)
    max_s: float = Field(default=30.0, gt=0)
    search: dict[str, int | float | str | bool] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _changes(self) -> Mixed:
        if not self.inserts + self.updates + self.deletes:
            raise ValueError("nothing changes: set inserts, updates or deletes above 0")
        return self

    def points(self, store: type[Store], index: Index, rows: int) -> list[dict[str, Any]]:
        can = store.capabilities.under(index.kind)
        needs = {
            "insert after the index is built": self.inserts and not can.inserts_after_build,
            "update in place": self.updates and not can.upsert,
            "delete": self.deletes and not can.delete,
        }
        for what, missing in needs.items():
            if missing:
                raise Unsupported(f"{store.name} cannot {what} with index '{index.kind}'")
        return search_points(store, index, self.search)

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        script = _script(self, context)
        outset = Outset.now()
        recorders = {kind: Recorder() for kind in KINDS}
        for recorder in recorders.values():
            recorder.start(outset.started_ns)
        answers, done = self._play(context, point, script, recorders, outset)
        cpu_ns = process_time_ns()
        for kind in KINDS:
            samples = recorders[kind].samples()
            if not samples:
                continue
            phase = phase_of(
                kind,
                recorders[kind],
                outset,
                ended_ns=done,
                cpu_ns=cpu_ns,
                issued=samples,
                clients=1,
                params={"loop": "closed", "clients": 1},
                no_recall="an operation has no answer to judge",
            )
            phase.params = {**phase.params, "k": context.k, **point}
            if kind != SEARCH:
                phase.missing["dead_answers"] = "an operation has no answer to judge"
            else:
                lost = sum(int(recorders[other].summary()["errors"] or 0) for other in KINDS[1:])
                if lost:
                    for name in ("recall_mean", "recall_min", "recall_p05", "dead_answers"):
                        phase.missing[name] = f"{lost} writes failed: what is there is not known"
                else:
                    _judge(phase, context, script, answers)
            yield phase

    def _play(
        self,
        context: Context,
        point: Mapping[str, Any],
        script: _Script,
        recorders: Mapping[str, Recorder],
        outset: Outset,
    ) -> tuple[dict[int, NDArray[np.int64]], int]:
        """Do what the script says; each answer by its place in it, and when the last was done."""
        store, params = context.store, search_params(context, point)
        answers: dict[int, NDArray[np.int64]] = {}
        search: Searcher | None = store.searcher(context.k, params)
        done = outset.started_ns
        for at, (kind, subject) in enumerate(zip(script.kinds, script.subjects, strict=True)):
            if done - outset.started_ns > self.max_s * 1e9:
                script.cut(at)
                break
            if kind == SEARCH and search is None:
                search = store.searcher(context.k, params)
            batch = script.batch(context, at) if kind in (INSERT, UPDATE) else None
            sent = perf_counter_ns()
            try:
                if kind == SEARCH:
                    assert search is not None
                    answers[at], _ = search(context.dataset.queries[subject])
                elif kind == DELETE:
                    store.delete(np.array([subject], dtype=np.int64))
                elif batch is not None:
                    (store.insert if kind == INSERT else store.upsert)(batch)
            except FATAL:
                raise
            except BaseException as failure:  # noqa: BLE001 - recorded, as the design says
                done = perf_counter_ns()
                recorders[kind].error(sent, sent, done, *describe(failure))
            else:
                done = perf_counter_ns()
                recorders[kind].operation(sent, sent, done)
            if kind != SEARCH:
                search = None  # a searcher is good until the next write
            context.progress(at + 1, len(script.kinds), "mixed")
        return answers, done

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """At a millisecond an operation."""
        return min(self.max_s, self.operations * 2e-3)


@dataclass
class _Version:
    """A row's vector from one write to the next: alive at places born < t < died."""

    id: int
    vector: NDArray[np.float32]
    born: int
    died: int = _NEVER


@dataclass(frozen=True)
class _Script:
    """What is done in which order, made before the clock starts.

    subjects: of a search the query's number, else the row's id.
    versions: of every row that a write touches, in order; the first is the dataset's own.
    rows: id → position in the dataset of the row whose metadata it has.
    """

    kinds: list[str]
    subjects: list[int]
    versions: dict[int, list[_Version]]
    written: dict[int, _Version]
    rows: dict[int, int]

    def batch(self, context: Context, at: int) -> pa.RecordBatch:
        """The row that is written at a place."""
        version = self.written[at]
        row = self.rows[version.id]
        metadata = context.dataset.metadata
        return make_batch(
            context.schema,
            np.array([version.id], dtype=np.int64),
            version.vector[None, :],
            None if metadata is None else metadata.slice(row, 1),
        )

    def cut(self, at: int) -> None:
        """Nothing from this place on was done."""
        del self.kinds[at:], self.subjects[at:]


def _script(asked: Mixed, context: Context) -> _Script:
    """Draw the operations, and follow which rows are alive."""
    dataset, rng = context.dataset, np.random.default_rng(context.seed)
    shares = np.array([asked.searches, asked.inserts, asked.updates, asked.deletes])
    drawn = rng.choice(len(KINDS), asked.operations, p=shares / shares.sum())
    script = _Script([], [], {}, {}, {})
    live = dataset.ids.tolist()
    position = {id_: row for row, id_ in enumerate(live)}
    fresh = int(dataset.ids.max()) + 1
    noise = 0.05 * float(np.std(dataset.vectors[: min(1000, dataset.rows)]))
    for at, kind in enumerate(KINDS[i] for i in drawn.tolist()):
        if kind != SEARCH and kind != INSERT and len(live) <= context.k:
            kind = SEARCH  # enough must be left to be found
        script.kinds.append(kind)
        if kind == SEARCH:
            script.subjects.append(int(rng.integers(len(dataset.queries))))
            continue
        if kind == INSERT:
            id_, fresh = fresh, fresh + 1
            script.rows[id_] = int(rng.integers(dataset.rows))
            live.append(id_)
        else:
            spot = int(rng.integers(len(live)))
            id_ = live[spot]
            if id_ not in script.versions:
                row = script.rows[id_] = position[id_]
                script.versions[id_] = [_Version(id_, dataset.vectors[row], -1)]
            script.versions[id_][-1].died = at
            if kind == DELETE:
                live[spot] = live[-1]
                live.pop()
        script.subjects.append(id_)
        if kind != DELETE:
            source = dataset.vectors[int(rng.integers(dataset.rows))]
            moved = source + noise * rng.standard_normal(dataset.dim, dtype=np.float32)
            version = _Version(id_, moved.astype(np.float32), at)
            script.versions.setdefault(id_, []).append(version)
            script.written[at] = version
    return script


def _judge(
    phase: Phase, context: Context, script: _Script, answers: Mapping[int, NDArray[np.int64]]
) -> None:
    """Recall against the rows alive at each search, ties counting, and rows that were not."""
    dataset, k = context.dataset, context.k
    untouched = ~np.isin(dataset.ids, np.fromiter(script.versions, dtype=np.int64))
    asked = sorted({script.subjects[at] for at in answers})
    place = {query: i for i, query in enumerate(asked)}
    still = None
    if untouched.any() and asked:
        still = exact_topk(
            dataset.vectors, dataset.ids, dataset.queries[asked], dataset.metric,
            min(k, int(untouched.sum())), mask=untouched,
        )  # fmt: skip
    position = {int(id_): row for row, id_ in enumerate(dataset.ids)}
    versions = [version for own in script.versions.values() for version in own]
    recalls, dead = [], 0
    for at, found in answers.items():
        query = dataset.queries[script.subjects[at]]
        alive = {v.id: v.vector for v in versions if v.born < at < v.died}
        there = np.zeros((0, dataset.dim), np.float32)
        changed = np.stack(list(alive.values())) if alive else there
        every = distances(query, changed, dataset.metric)
        if still is not None:
            every = np.concatenate([every, still.distances[place[script.subjects[at]]]])
        wanted = min(k, len(every))
        kth = float(np.partition(every, wanted - 1)[wanted - 1])
        given = dict.fromkeys(found.tolist())
        known = [id_ for id_ in given if id_ in alive or _untouched(id_, script, position)]
        dead += len(given) > len(known)
        if not known:
            recalls.append(0.0)
            continue
        vectors = np.stack([_vector(id_, alive, dataset.vectors, position) for id_ in known])
        scale = np.linalg.norm(vectors, axis=1) * float(np.linalg.norm(query))
        near = ties(distances(query, vectors, dataset.metric), kth, dataset.metric, scale)
        recalls.append(min(1.0, int(near.sum()) / wanted))
    if recalls:
        for name, value in (
            ("recall_mean", float(np.mean(recalls))),
            ("recall_min", min(recalls)),
            ("recall_p05", float(np.quantile(recalls, 0.05))),
        ):
            phase.metrics[name] = value
            phase.missing.pop(name, None)
    phase.metrics["dead_answers"] = float(dead)
    if dead and phase.valid:
        phase.valid = False
        phase.reason = f"{dead} answers name rows that were not there, or no longer"


def _untouched(id_: int, script: _Script, position: Mapping[int, int]) -> bool:
    return id_ in position and id_ not in script.versions


def _vector(
    id_: int,
    alive: Mapping[int, NDArray[np.float32]],
    vectors: NDArray[np.float32],
    position: Mapping[int, int],
) -> NDArray[np.float32]:
    return alive[id_] if id_ in alive else vectors[position[id_]]
