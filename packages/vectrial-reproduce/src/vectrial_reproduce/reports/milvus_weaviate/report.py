"""Milvus against Weaviate: ingest, concurrency, ef, filters, shards, anomalies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vectrial_reproduce.reports.milvus_weaviate.claims import CLAIMS, SHARDS
from vectrial_reproduce.reports.milvus_weaviate.notes import NOTES
from vectrial_reproduce.reports.model import (
    Arm,
    Ask,
    Measure,
    NotYet,
    Part,
    Reproduction,
    Scalar,
)

_HNSW: dict[str, Scalar | list[Scalar]] = {"m": 30, "ef_construction": 360}
_ARMS = (
    Arm("Milvus", "milvus", "hnsw", _HNSW, "the report's own code left Milvus its defaults"),
    Arm("Weaviate", "weaviate", "hnsw", _HNSW,
        of={"disk": "two thirds of it can be the graph's log of changes, which shrinks to a small"
                    " part when it is condensed: files of more rows may be smaller"}),
)  # fmt: skip
#: Note on metrics of filtered searches, about what a store does under filters only.
_FEW_KEPT = (
    "where a filter keeps fewer than 40,000 rows, these are compared one by one whatever ef is"
)
_MISSES = "under a filter its hnsw index may miss near rows or return too few, whatever ef is"
_ARMS_FILTERED = tuple(
    replace(arm, of_filtered=dict.fromkeys(("qps", "latency_mean", "recall"), told))
    for arm, told in zip(_ARMS, (_MISSES, _FEW_KEPT), strict=True)
)
#: Arms on H&M, where the report's code kept the defaults of Weaviate, too.
_ARMS_HNM = (_ARMS[0], replace(_ARMS[1], faithful={}))
_ARMS_HNM_FILTERED = (_ARMS_FILTERED[0], replace(_ARMS_FILTERED[1], faithful={}))
#: "Distributed" of the report: two shards without replicas, on one machine as well.
_ARMS_SHARDED = tuple(
    replace(
        arm,
        params={**_HNSW, "shards": SHARDS},
        nodes=SHARDS,
        note="; ".join(filter(None, (arm.note, "two nodes share the processors of one machine"))),
    )
    for arm in _ARMS
)
_CLIENTS, _EFS = [1, 8, 16, 32], [128, 256, 512]
#: Metrics of its searches, and ours.
_FIGURES = (("qps", "qps"), ("latency_mean", "latency_mean"), ("recall", "recall_mean"))

_SEARCHED = (
    *(
        Measure((covers, metric), "search", "search", ours)
        for covers in ("concurrency", "ef_sweep", "result_files")
        for metric, ours in _FIGURES
    ),
)  # fmt: skip
_GRAPH = (
    "other numbers of rows were loaded, and a row of a small graph takes less time than one of a"
    " large one"
)
_APPENDED = "before it builds an index, Milvus writes every row once"


def _load_measures(note: str = "") -> tuple[Measure, ...]:
    """note: remark on the loads of one dataset."""
    return (
        Measure(
            ("ingest", "throughput"), "ingest", "ingest", "ready_rows_per_s",
            of_graphs=_GRAPH, note=f"rows over the time of load and index; {note}",
        ),
        Measure(
            ("load_vs_index", "load_time"), "ingest", "ingest", "ready_s",
            minus=("build_s", "wait_s", "first_search_s"), per_row=_APPENDED,
            note=f"load and flush; {note}",
            fewer="the fixed seconds of a load weigh more the fewer the rows are, and few rows fit"
            " into memory better: the ratio has both",
        ),
        Measure(
            ("load_vs_index", "index_time"), "ingest", "ingest", "ready_s",
            minus=("load_s", "flush_s", "first_search_s"), of_graphs=_GRAPH,
            note=f"build and wait; {note}",
        ),
        Measure(
            ("storage", "disk"), "ingest", "settled", "disk_bytes", minus=("disk_baseline_bytes",),
            per_row="each takes the bytes of its vector, its links and its fields",
            note=f"without what the store takes when it is empty; {note}",
            fewer="what a store reserves in advance weighs more the fewer the rows are, and what it"
            " rewrites only from some size on less: the ratio has both",
        ),
    )  # fmt: skip


_AMONG = (
    "recall is judged among the rows that each query's filter keeps; the stand-in has their 2048"
    " dimensions, and filters on 3 columns instead of 24: fewer indexes to look into"
)
_NEEDED = "the store filters by no column without an index"
_INDEXED: dict[str, Any] = {"selectivity": "own", "payload_index": ("on", "fixed")}
_UNINDEXED: dict[str, Any] = {"selectivity": "own", "payload_index": "off"}
_UNFILTERED: dict[str, Any] = {"selectivity": 1.0, "payload_index": ("on", "fixed")}


def _filtered_measure(
    covers: tuple[str, str], ours: str, conditions: Mapping[str, Scalar], where: Mapping[str, Any]
) -> Measure:
    absent = _NEEDED if where is _UNINDEXED else ""
    note = "" if where is _UNFILTERED else _AMONG
    return Measure(
        covers, "filtered", "search", ours, given=conditions, where=where, note=note, absent=absent
    )


#: The recall of its searches without a filter is left out: it is against the truth under filters.
_FILTERED = (
    _filtered_measure(("filtered", "qps"), "qps", {"indexed": True}, _INDEXED),
    _filtered_measure(("filtered", "qps"), "qps", {"indexed": False}, _UNINDEXED),
    _filtered_measure(("filtered", "recall"), "recall_mean", {}, _INDEXED),
    *(
        _filtered_measure(("result_files", metric), ours, {"filter": told}, where)
        for told, where in (
            ("indexed", _INDEXED), ("unindexed", _UNINDEXED), ("none", _UNFILTERED),
        )
        for metric, ours in _FIGURES
        if (told, metric) != ("none", "recall")
    ),
)  # fmt: skip


def _searches(efs: Sequence[int] = _EFS) -> tuple[Ask, ...]:
    """Every number of clients at every ef, as in the report's result files."""
    return tuple(
        Ask("search", {"clients": _CLIENTS, "search": {"ef_search": ef}, "duration_s": 2.0})
        for ef in efs
    )


def _loads(*sizes: int, weaviate: int | None = None) -> tuple[Ask, ...]:
    """weaviate: its rows per batch in the report's own method, if not 2000."""
    own = {} if weaviate is None else {"weaviate": {"batch_rows": weaviate}}
    grown = {"checkpoints": sizes}
    return (Ask("ingest", {"probes": 0, "settle_s": 10.0}, grown, faithful_of=own),)


#: Differences of the columns' stand-in.
_COLUMNS = (
    "the stand-in has 24 real columns, as theirs, but 384 dimensions instead of 2048: a row without"
    " indexes takes less time, so that the same indexes are a larger share of it; its columns are"
    " of Debian's packages, with other values than those of clothes"
)
_HNM_FILTERED = Part(
    name="hnm-filtered",
    title="H&M articles, one filter per query",
    dataset="h-and-m-2048",
    sources=("h-and-m-2048-angular-filters", "fashion-images-2048-filtered"),
    rows=105_100,
    queries=10_000,
    k=25,
    arms=_ARMS_HNM_FILTERED,
    asks=(
        Ask(
            "filtered",
            {"predicates": [], "own": True, "search": {"ef_search": 512}},
        ),
    ),
    measures=_FILTERED,
    batch_rows=2000,
    least=1000,
)

REPORT = Reproduction(
    name="milvus-weaviate",
    title="Comparative Performance Analysis of Open-Source Vector Databases: Milvus vs. Weaviate",
    document="term paper, National Technical University of Athens, with its result files",
    machine="HP laptop, Ryzen 4800H (8 cores), Windows 11 with WSL2 of 7.6 GB, containers, the"
    " client on the same machine",
    scale=0.005,
    server_memory="7.6GB",
    parts=(
        Part(
            name="glove",
            title="GloVe-100",
            dataset="glove-100-angular",
            sources=("glove-100-angular", "glove-words-100"),
            rows=1_183_514,
            queries=10_000,
            k=100,
            arms=_ARMS,
            asks=(*_loads(10_000, 100_000, 1_183_514), *_searches()),
            measures=(
                *_load_measures(),
                *_SEARCHED,
                Measure(
                    ("sharded_concurrency", "qps"),
                    "search",
                    "search",
                    "qps",
                    given={"shards": 1},
                ),
            ),
            batch_rows=2000,
            least=10_000,  # the least that was published, so that it is what is loaded
            metadata=False,
        ),
        Part(
            name="glove-distributed",
            title="GloVe-100 in two shards",
            dataset="glove-100-angular",
            sources=("glove-100-angular", "glove-words-100"),
            rows=1_183_514,
            queries=10_000,
            k=100,
            arms=_ARMS_SHARDED,
            asks=(*_loads(10_000, 100_000, 1_183_514), *_searches((512,))),
            measures=(
                Measure(
                    ("sharded_ingest", "throughput"),
                    "ingest",
                    "ingest",
                    "ready_rows_per_s",
                    note="rows over the time of load and index",
                    of_graphs=_GRAPH,
                ),
                Measure(
                    ("sharded_concurrency", "qps"),
                    "search",
                    "search",
                    "qps",
                    recall=True,
                    note="at equal ef, of which each shard looks at as many",
                ),
            ),
            only={"shards": SHARDS},
            batch_rows=2000,
            least=10_000,
            metadata=False,
        ),
        Part(
            name="arxiv",
            title="arXiv titles",
            dataset="arxiv-titles-384",
            sources=("arxiv-titles-384-angular", "dictionaries-minilm-384"),
            rows=2_138_591,
            queries=15_000,
            k=10,
            arms=_ARMS,
            asks=(
                *_loads(20_000, 200_000, 2_138_591, weaviate=500),
                Ask("time_to_searchable"),
                *_searches(),
            ),
            measures=(*_load_measures(), *_SEARCHED),
            batch_rows=2000,
            least=20_000,
            metadata=False,
        ),
        Part(
            name="hnm",
            title="H&M articles with 24 fields",
            dataset="h-and-m-2048",
            sources=("h-and-m-2048-angular", "fashion-images-2048"),
            rows=105_100,
            queries=10_000,
            k=25,
            arms=_ARMS_HNM,
            asks=(*_loads(1_000, 10_000, 105_100, weaviate=100),),
            measures=_load_measures("the stand-in has 3 columns of metadata, theirs 24"),
            batch_rows=2000,
            least=1000,
        ),
        Part(
            name="hnm-columns",
            title="H&M articles: what indexes on 24 fields cost",
            dataset="h-and-m-2048",
            sources=("h-and-m-2048-angular", "debian-minilm-384"),
            rows=105_100,
            queries=10_000,
            k=25,
            arms=_ARMS_HNM,
            asks=(
                Ask(
                    "ingest",
                    {"payload_index": ["none", "off", "on"], "fields": 24, "columns": "own"},
                ),
            ),
            measures=(
                *(
                    Measure(
                        ("scalar_index_overhead", "ingest_time"),
                        "ingest",
                        "arm",
                        "ready_s",
                        given={"indexed": indexed},
                        where={"payload_index": arms},
                        of_graphs=_GRAPH,
                        note=f"both arms in the same batches; {_COLUMNS}",
                    )
                    for indexed, arms in ((False, ("off",)), (True, ("on", "fixed")))
                ),
                Measure(
                    ("scalar_index_overhead", "overhead"),
                    "ingest",
                    "overhead",
                    "ready_overhead",
                    where={"of": ("indexes", "both")},
                    note=_COLUMNS,
                    chosen={
                        "both": "of the columns together with their indexes, since nothing was"
                        " loaded without indexes; theirs is of the indexes alone"
                    },
                ),
            ),
            batch_rows=2000,
            least=1000,
        ),
        _HNM_FILTERED,
        replace(
            _HNM_FILTERED,
            name="hnm-filtered-columns",
            title="One filter per query on 24 columns, in 384 dimensions",
            sources=("debian-minilm-384-filtered",),
            measures=(),
        ),
        Part(
            name="anomaly",
            title="Anomalies among images of a class",
            dataset="mvtec-dino-384",
            sources=("mvtec-ad", "texture-defects-384"),
            rows=1_500,
            queries=1_344,
            k=10,
            arms=_ARMS_FILTERED,
            asks=(
                Ask("ingest", {"probes": 0, "checkpoints": [1.0]}),
                Ask(
                    "anomaly",
                    {"search": {"ef_search": 256}},
                    faithful={"timed": "anomalies", "copies": 2},
                ),
            ),
            measures=(
                Measure(("anomaly", "qps"), "anomaly", "search", "qps"),
                Measure(("anomaly", "latency_mean"), "anomaly", "search", "latency_mean"),
                Measure(
                    ("anomaly", "throughput"),
                    "ingest",
                    "ingest",
                    "ready_rows_per_s",
                    of_graphs=_GRAPH,
                    note="rows over the time of load and index",
                ),
                Measure(
                    ("anomaly", "ingest_time"), "ingest", "ingest", "ready_s", of_graphs=_GRAPH
                ),
            ),
            batch_rows=2000,
            least=1_500,
            least_queries=1_344,
        ),
    ),
    claims=CLAIMS,
    not_yet={
        "result_files": NotYet(
            "the recall of searches without a filter against the truth under filters, which says"
            " little"
        ),
    },
    notes=NOTES,
)
