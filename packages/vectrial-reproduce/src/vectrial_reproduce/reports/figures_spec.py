"""Figures of each report that are drawn again, and their data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vectrial.document.charts import moments
from vectrial_reproduce.reports.model import Drawing, DrawnSeries, Scalar

_GLOVE: dict[str, Scalar] = {"dataset": "glove-100-angular"}
_ARXIV: dict[str, Scalar] = {"dataset": "arxiv-titles-384"}
_HNM: dict[str, Scalar] = {"dataset": "h-and-m-2048"}
_NAMES: dict[Scalar, str] = {
    "glove-100-angular": "GloVe-100",
    "arxiv-titles-384": "arXiv titles",
    "h-and-m-2048": "H&M",
}
_DIMS = {"glove-100-angular": 100, "arxiv-titles-384": 384, "h-and-m-2048": 2048}
_INDEXED: dict[Scalar, str] = {False: "not indexed", True: "indexed"}

_RATE = Drawing(
    "ingest-glove", "Ingest throughput against size: GloVe-100", "result files; not in a figure",
    "ingest", "line", ("rows",), "rows loaded (log)", "rows per second, loaded and indexed",
    metrics=("throughput",), given=_GLOVE, logs="x",
)  # fmt: skip
_QPS_P = Drawing(
    "qps-clients-glove", "Queries per second against P: GloVe-100, ef = 256", "Figure 14",
    "concurrency", "line", ("clients",), "clients (P)", "queries per second",
    metrics=("qps",), given=_GLOVE,
)  # fmt: skip
_QPS_EF = Drawing(
    "qps-ef-glove", "Queries per second against ef: GloVe-100, one client", "Figure 16",
    "ef_sweep", "line", ("ef_search",), "ef", "queries per second",
    metrics=("qps",), given=_GLOVE,
)  # fmt: skip
_RECALL_EF = replace(
    _QPS_EF, name="recall-ef-glove", title="Recall@100 against ef: GloVe-100",
    source="Figure 18", y_title="recall@100", metrics=("recall",),
)  # fmt: skip
_SHARDED = Drawing(
    "sharded-milvus", "Standalone and distributed: Milvus, GloVe-100, ef = 512", "Figure 23",
    "sharded_concurrency", "line", ("clients",), "clients (P)", "queries per second",
    metrics=("qps",), stores=("Milvus",), split="shards",
    names={1: "standalone", 2: "two shards"},
    note="Not at equal recall: each shard looks at ef candidates of its own.",
)  # fmt: skip
_FILE_GRID = Drawing(
    "grid-milvus", "Queries per second against P at each ef: Milvus, GloVe-100", "Figure 26",
    "result_files", "line", ("clients",), "clients (P)", "queries per second",
    metrics=("qps",), given=_GLOVE, stores=("Milvus",), split="ef_search",
    names={128: "ef 128", 256: "ef 256", 512: "ef 512"},
    note="From the report's result files, which contradict themselves and, at P = 16, figure 14.",
)  # fmt: skip

_MILVUS_WEAVIATE = (
    _RATE,
    replace(_RATE, name="ingest-arxiv", title="Ingest throughput against size: arXiv titles",
            source="Figure 7", given=_ARXIV),
    replace(_RATE, name="ingest-hnm", title="Ingest throughput against size: H&M, 24 fields",
            source="Figure 10", given=_HNM,
            note="The stand-in has 3 columns of metadata, theirs had 24."),
    Drawing(
        "mb-per-s", "Ingest throughput in MB/s, whole datasets", "Figure 12", "ingest", "bar",
        ("dataset",), "", "MB of vectors per second", metrics=("throughput",),
        times={name: dim * 4 / 1e6 for name, dim in _DIMS.items()}, names=_NAMES,
        given={"rows": "all"},
        derived="rows per second × dimensions × 4 bytes, as the report derives its figure 12, whose"
        " own bars could only be read off; a MB there is 2^20 bytes, here 10^6",
    ),
    Drawing(
        "availability", "Availability over time: arXiv titles", "Figure 9", "ingest", "line",
        (), "seconds since the load began", "% of acknowledged rows found",
        curve=DrawnSeries("arxiv", "time_to_searchable", "look", "elapsed_s", "share_found", 100.0,
                    moments="searchable"),
        note="The report's own curve is a sketch without numbers; it has Milvus ready at about"
        " 5,890 s, twice what its own load took, and is not repeated. " + moments.CAPTION,
    ),
    Drawing(
        "load-share", "Load against index: Milvus, GloVe-100", "the result files",
        "load_vs_index", "share", ("rows",), "", "% of the time until all is indexed",
        metrics=("load_time", "index_time"), given=_GLOVE,
        names={"load_time": "load", "index_time": "index"},
        derived="each time over the sum of both",
    ),
    Drawing(
        "scalar-index", "Indexes on 24 fields, off and on: H&M", "Figure 11",
        "scalar_index_overhead", "bar", ("indexed",), "", "ms per row, loaded and indexed",
        metrics=("ingest_time",), per_row=True, names=_INDEXED,
        derived="seconds over the rows of that load, so that loads of different sizes compare",
    ),
    Drawing(
        "storage", "Storage: bytes on disk for each row", "Figure 13", "storage", "bar",
        ("dataset", "rows"), "", "kB on disk per row", metrics=("disk",), per_row=True,
        names=_NAMES, logs="x",
        derived="bytes on disk over the rows loaded, so that loads of different sizes compare",
        note="What a store reserves in advance weighs more the fewer the rows are.",
    ),
    _QPS_P,
    replace(_QPS_P, name="qps-clients-arxiv", source="Figure 15", given=_ARXIV,
            title="Queries per second against P: arXiv titles, ef = 256"),
    _QPS_EF,
    replace(_QPS_EF, name="qps-ef-arxiv", source="Figure 17", given=_ARXIV,
            title="Queries per second against ef: arXiv titles, one client"),
    _RECALL_EF,
    replace(_RECALL_EF, name="recall-ef-arxiv", source="Figure 19", given=_ARXIV,
            title="Recall@10 against ef: arXiv titles", y_title="recall@10"),
    replace(_QPS_EF, name="latency-ef-arxiv", source="Figure 20", given=_ARXIV,
            title="Latency against ef: arXiv titles, one client", y_title="mean latency in ms",
            metrics=("latency_mean",)),
    Drawing(
        "filtered", "Filtered search, fields indexed and not: H&M", "Figure 21", "filtered", "bar",
        ("indexed",), "", "queries per second", metrics=("qps",), names=_INDEXED,
    ),
    Drawing(
        "sharded-ingest", "Ingest into two shards: GloVe-100", "Figure 22", "sharded_ingest",
        "line", ("rows",), "rows loaded (log)", "rows per second", metrics=("throughput",),
        logs="x",
    ),
    _SHARDED,
    replace(_SHARDED, name="sharded-weaviate", source="Figure 24", stores=("Weaviate",),
            title="Standalone and distributed: Weaviate, GloVe-100, ef = 512"),
    *(
        replace(
            _FILE_GRID, name=f"grid-{what}{store.lower()}{suffix}", stores=(store,),
            title=f"{title} against P at each ef: {store}, {_NAMES[given['dataset']]}",
            given=given, metrics=(metric,), y_title=y_title,
        )
        for given, suffix in ((_GLOVE, ""), (_ARXIV, "-arxiv"))
        for what, title, metric, y_title in (
            ("", "Queries per second", "qps", "queries per second"),
            ("latency-", "Mean latency", "latency_mean", "mean latency in ms"),
        )
        for store in ("Milvus", "Weaviate")
    ),
)  # fmt: skip

_SIZES = Drawing(
    "latency-size-same", "Find by vector against size: the same HNSW for all",
    "the page's figure of find by vector at 10k, 100k and 1M, of which only 1M has numbers",
    "crud", "line", ("rows",), "rows in the collection (log)",
    "mean latency of a find by vector in ms (log)", metrics=("find_by_vector",),
    given={"settings": "same"}, logs="xy", unit="ms", limit=300.0,
    curve=DrawnSeries("same", "search", "search", "rows", "latency_mean", 1e-3),
    note="Published latencies go through DocArray, which takes about a millisecond a call.",
)  # fmt: skip
_DOCARRAY_1M = (
    _SIZES,
    replace(_SIZES, name="latency-size-vendor", given={"settings": "vendor"},
            title="Find by vector against size: each vendor's defaults",
            curve=DrawnSeries("vendor", "search", "search", "rows", "latency_mean", 1e-3)),
)  # fmt: skip

_BUILD: dict[str, Scalar] = {"m": 16, "ef_construction": 128}
_SIFT = Drawing(
    "recall-ef", "Recall@10 against ef: m = 16, ef_construction = 128",
    "the tables, of one of their six builds; the report has no such figure", "crud", "line",
    ("ef_search",), "ef (log)", "recall@10", metrics=("recall",), given=_BUILD, logs="x",
    note="The same ef is not the same effort: compare stores at equal recall.",
)  # fmt: skip
_CREATE = Drawing(
    "create", "Create against ef_construction: m = 16, ef = 128",
    "the tables, of one ef and m; the report has no such figure", "crud", "line",
    ("ef_construction",), "ef_construction (log)", "ms per row (log)", metrics=("create",),
    given={"m": 16, "ef_search": 128}, per_row=True, logs="xy",
    derived="seconds over the rows of that load, so that loads of different sizes compare",
)  # fmt: skip
_TRADEOFF = Drawing(
    "qps-recall", "Queries per second against recall@10: m = 16, ef_construction = 128",
    "the report's only chart, drawn from its tables", "crud", "tradeoff", ("ef_search",),
    "recall@10", "queries per second (log)", metrics=("recall", "find_by_vector"), given=_BUILD,
    logs="y", rate=True, derived="one over the mean latency of one client",
)  # fmt: skip
_DOCARRAY_SIFT1M = (
    _TRADEOFF,
    replace(_TRADEOFF, name="qps-recall-32",
            title="Queries per second against recall@10: m = 32, ef_construction = 256",
            given={"m": 32, "ef_construction": 256}),
    _SIFT,
    replace(_SIFT, name="latency-ef", title="Latency against ef: m = 16, ef_construction = 128",
            y_title="mean latency of a find by vector in ms (log)", metrics=("find_by_vector",),
            logs="xy"),
    replace(_SIFT, name="recall-ef-32", title="Recall@10 against ef: m = 32, ef_construction = 256",
            given={"m": 32, "ef_construction": 256}),
    _CREATE,
    replace(_CREATE, name="create-32", title="Create against ef_construction: m = 32, ef = 128",
            given={"m": 32, "ef_search": 128}),
)  # fmt: skip

_PUT = Drawing(
    "put", "Put throughput against size", "the page's table; it has no figure", "ingest", "line",
    ("rows",), "rows put (log)", "MB/s, acknowledged (log)", metrics=("put",), split="dim",
    names={128: "128 dimensions", 384: "384 dimensions"}, logs="xy",
)  # fmt: skip
_SEARCH = Drawing(
    "search", "Searches of 100,000 rows, with a filter and none", "the page's figure of both",
    "search", "bar", ("filter",), "", "queries per second", metrics=("qps",),
    names={False: "no filter", True: "a filter"},
)  # fmt: skip
_LONGBOW = (
    Drawing(
        "transport", "Put and get of 10,000 rows, in MB/s", "the page's table; it has no figure",
        "transport", "bar", ("metric",), "", "MB/s (log)", metrics=("put", "get"), logs="x",
        names={"put": "DoPut", "get": "DoGet"},
    ),
    _SEARCH,
    replace(_SEARCH, name="search-p99", title="99th percentile of searches, with a filter and none",
            y_title="99th percentile in ms", metrics=("latency_p99",)),
    _PUT,
    replace(_PUT, name="hybrid", title="99th percentile of hybrid searches against size",
            y_title="99th percentile in ms", metrics=("hybrid_latency_p99",), logs="x"),
)  # fmt: skip

_AISTOR = (
    Drawing(
        "index-time", "Time of the index alone, CPU and GPU",
        "numbers of the text; the charts are images", "index_pipeline", "bar", ("device",), "",
        "minutes (log)", metrics=("index_time",), unit="min", logs="x",
        names={"cpu": "CPU", "gpu": "GPU"},
    ),
)  # fmt: skip

#: The drawings of each report, in its order.
DRAWINGS: Mapping[str, tuple[Drawing, ...]] = {
    "milvus-weaviate": _MILVUS_WEAVIATE,
    "docarray-1m": _DOCARRAY_1M,
    "docarray-sift1m": _DOCARRAY_SIFT1M,
    "longbow": _LONGBOW,
    "aistor-index": _AISTOR,
}
