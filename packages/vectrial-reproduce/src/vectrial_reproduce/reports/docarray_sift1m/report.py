"""DocArray's benchmark on SIFT1M: six systems through one client, a grid of 24 settings."""

from __future__ import annotations

from vectrial_reproduce.reports.docarray_sift1m.claims import CLAIMS
from vectrial_reproduce.reports.model import (
    Arm,
    Ask,
    Measure,
    Note,
    Part,
    Reproduction,
    Scalar,
)

_GRID: dict[str, Scalar | list[Scalar]] = {"m": [16, 32], "ef_construction": [64, 128, 256]}
_EFS = [32, 64, 128, 256]
#: Rows of a call, of those for which it is stated; DocArray splits its calls so by itself. Redis'
#: vector sets stand for its query engine, Qdrant Edge for Qdrant.
_BATCHES = {
    **dict.fromkeys(("qdrant", "qdrant-edge"), 65),
    "weaviate": 50,
    **dict.fromkeys(("redis-search", "redis"), 64),
}
_QDRANT = ("qdrant", "qdrant-edge", "docarray-qdrant")
_GRAPH = (
    "other numbers of rows were loaded, and a row of a small graph takes less time than one of a"
    " large one"
)

MEASURES = (
    Measure(
        ("crud", "create"), "ingest", "ingest", "ready_s", faithful="load_s",
        per_row="every row is appended once", of_graphs=_GRAPH,
        note="until every row is served by the final index",
    ),
    Measure(("crud", "read"), "crud", "read", "latency_p50", faithful="latency_mean"),
    Measure(("crud", "update"), "crud", "update", "latency_p50", faithful="latency_mean"),
    Measure(("crud", "delete"), "crud", "delete", "latency_p50", faithful="latency_mean"),
    Measure(
        ("crud", "find_by_condition"), "condition", "find", "latency_p50",
        faithful="latency_mean", faithful_phase="client_scan",
        where={"condition": "one row", "payload_index": ("on", "fixed", "off")},
        scans=True,
        absent="the store does not find by condition: the client reads all rows and chooses",
        faithful_absent="the report's client read all rows and chose, and this store does not read"
        " out its rows",
    ),
    Measure(("crud", "find_by_vector"), "search", "search", "latency_mean", scans=True),
    Measure(("crud", "recall"), "search", "search", "recall_mean"),
)  # fmt: skip

#: The release that is used here for DocArray's own stores, and for Elasticsearch.
HERE = "DocArray 0.21"
MADE = {"create": "with the time of making Documents out of rows, which theirs had made before"}
_COUNTS = "AnnLite 0.5.10 counts all rows before each find, which is most of its time"
COUNTS = {"find_by_vector": _COUNTS, "find_by_condition": _COUNTS}
#: DocArray 0.21's `_append` of SQLite: SELECT COUNT(*) for every row.
COUNTED = {
    "create": "it counts all rows for each that it adds, so that its time grows with their square"
}
RENUMBERED = "every delete but the first numbers all rows anew, theirs was the only one"
MERGED = "ef_search is num_candidates, of one graph: its segments are merged"
UNMERGED = "its segments are not merged"
MERGED_IN = {"create": "with the time of merging its segments into one, which theirs were not"}
SAMPLES = (
    "300 calls (100 for find by condition), or as many as there were in 10 s (3 s), as the notes"
    " say; each effect verified"
)

ASKS = (
    Ask(
        "ingest",
        {"checkpoints": [1.0], "probes": 0},
        faithful_of={name: {"batch_rows": rows} for name, rows in _BATCHES.items()},
    ),
    Ask("crud", {"samples": 300, "max_s": 10.0}),
    Ask(
        "condition",
        {"samples": 100, "max_s": 3.0, "indexed": [True], "only": ["one row"]},
        faithful_of={name: {"indexed": [False]} for name in _QDRANT},
        once=True,
    ),
    Ask(
        "search",
        {"search": {"ef_search": _EFS}, "min_s": 1.0, "max_s": 10.0},
        faithful={"min_s": 0.0},
    ),
)


def through_docarray(
    published: str, store: str, params: dict[str, Scalar | list[Scalar]], *notes: str
) -> Arm:
    """A system called through DocArray, as in the report."""
    said = (f"called through {HERE}, as in the report", *notes)
    return Arm(published, store, "hnsw", params, "; ".join(said), through=HERE, of=MADE)


def edge_fallback(part: Part, params: dict[str, Scalar | list[Scalar]]) -> Part:
    """A part's Qdrant, measured as its engine in this process if no server of it is available."""
    arm = Arm(
        "Qdrant",
        "qdrant-edge",
        "hnsw",
        {**params, "full_scan_threshold_kb": 10},
        "Qdrant's own engine as a library in this process: no server, no network, one segment."
        " Searches use the graph however few rows there are, as theirs did with a million",
        here="Qdrant Edge, in process",
        lacks="a server and a network",
    )
    return part.substitute("qdrant", arm, "edge", "Qdrant's engine in process")


_SIFT = Part(
    name="sift",
    title="SIFT1M: create, read, update, delete, find",
    dataset="sift-128-euclidean",
    sources=("sift-128-euclidean", "sift-images-128"),
    rows=1_000_000,
    queries=10_000,
    k=10,
    arms=(
        Arm("In-Memory", "docarray-memory", "flat", here=HERE, of=MADE,
            of_ours={"delete": RENUMBERED}),
        Arm("AnnLite", "annlite", "hnsw", _GRID, of={**MADE, **COUNTS}),
        Arm("Qdrant", "qdrant", "hnsw", _GRID),
        Arm("Weaviate", "weaviate", "hnsw", _GRID),
        Arm("ElasticSearch", "elasticsearch", "hnsw", _GRID, MERGED, of_ours=MERGED_IN),
        Arm("Redis", "redis-search", "hnsw", _GRID),
        through_docarray("AnnLite", "docarray-annlite", _GRID),
        through_docarray("Qdrant", "docarray-qdrant", _GRID),
        through_docarray("Weaviate", "docarray-weaviate", _GRID),
        through_docarray("ElasticSearch", "docarray-elasticsearch", _GRID, UNMERGED),
        through_docarray("Redis", "docarray-redis", _GRID),
        Arm("SQLite", "docarray-sqlite", "flat", here=HERE,
            of={**MADE, "delete": "a delete writes the order of all rows again"},
            grows=("delete",), unlike=COUNTED),
    ),
    asks=ASKS,
    measures=MEASURES,
    metadata=False,
)  # fmt: skip

REPORT = Reproduction(
    name="docarray-sift1m",
    title="DocArray: One Million Scale Benchmark (SIFT1M, DocArray 0.18.2)",
    document="DocArray's documentation, “One Million Scale Benchmark”, v0.20, November 2022",
    machine="AWS t2.2xlarge (8 burstable cores, 32 GiB), Python 3.10.6, servers in containers on"
    " the same host",
    scale=0.005,
    server_memory="32GiB",
    parts=(
        _SIFT,
        edge_fallback(_SIFT, _GRID),
        Part(
            name="sift-cosine",
            title="SIFT1M by cosine, for what has nothing else",
            dataset="sift-128-euclidean",
            sources=("sift-images-128-cosine",),
            rows=1_000_000,
            queries=10_000,
            k=10,
            arms=(
                Arm("Redis", "redis", "hnsw", _GRID,
                    "Redis' vector sets, by cosine: its query engine cannot be had on this machine",
                    here="vector sets, by cosine"),
            ),
            asks=ASKS,
            measures=MEASURES,
            metadata=False,
            instead_of="redis-search",
        ),
    ),
    claims=CLAIMS,
    notes=(
        Note(
            "samples",
            "read, update, delete and find by condition are one call each",
            f"the median of {SAMPLES}, on rows drawn at random",
            f"the mean of {SAMPLES}: one call says nothing of the next",
        ),
        Note(
            "the client",
            "every store is called through DocArray, whose documents are made of and into Python"
            " objects around each call",
            "each store's own client or wire protocol, and beside it through DocArray 0.21, of"
            " which “What the report's client costs” is the difference",
            "through DocArray alone; where that cannot be had for a system, its official Python"
            " client",
        ),
        Note(
            "“number of results”",
            "10,000 is the number of queries; each asked for 10 neighbours",
            "10 neighbours; how many queries stands above the tables",
            "the same, each query once, or as many as there were in 10 s; theirs was one of those"
            " that compare with every row",
        ),
        Note(
            "batches",
            "65 rows a call for Qdrant, 50 for Weaviate, 64 for Redis, each waited for;"
            " Elasticsearch in bulk, with a refresh. Create depends on it more than on all else",
            "1000 rows a call for every store",
            "theirs: 65, 50 and 64; Elasticsearch, of which it is not known, stays at 1000",
        ),
        Note(
            "waiting for the index",
            "Qdrant indexes asynchronously and was not waited for, so that its time does not depend"
            " on m or ef_construction; the others index while inserting",
            "create ends when every row is served by the final index",
            "create ends with the last acknowledgement, of Elasticsearch before its refresh;"
            " searches are of the final index all the same",
        ),
        Note(
            "the machine",
            "burstable: create varies twofold between rows that differ only in the ef of searches",
            "create is measured once for each m and ef_construction and stands in every row of it,"
            " as do read, update and delete; find by condition, which has nothing to do with the"
            " graph, once for each store",
            "not repeated: it would take their machine",
        ),
        Note(
            "conditions",
            "i == 0 on the row's number; Qdrant had no index on it, the others had one",
            "a generated column that holds each number once, indexed where a store lets one choose;"
            " all else is measured on the vectors alone",
            "Qdrant has no index on the column",
        ),
        Note(
            "ef",
            "the same number is not the same effort: Elasticsearch holds so many candidates for"
            " each shard, Qdrant for each segment",
            "the same numbers, and one segment for Elasticsearch; compare rows of equal recall",
            "the same: the numbers are theirs",
        ),
    ),
)  # fmt: skip
