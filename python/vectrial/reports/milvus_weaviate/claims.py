"""What the paper concludes from its figures."""

from __future__ import annotations

from vectrial.reports.model import Claim, Scalar, Side

#: Shards of a collection in its cluster.
SHARDS = 2

_MILVUS, _WEAVIATE = ("Milvus",), ("Weaviate",)
_AT_EQUAL_EF = "at equal ef, which is not equal recall"


def _milvus(
    text: str,
    metric: str,
    part: str,
    given: dict[str, Scalar] | None = None,
    least: float = 1.0,
    note: str = "",
) -> Claim:
    """Milvus' figure is the larger one."""
    own = given or {}
    return Claim(
        text, metric, Side(part, own, _MILVUS), Side(part, own, _WEAVIATE), least=least, note=note
    )


def _weaviate(
    text: str,
    metric: str,
    part: str,
    given: dict[str, Scalar] | None = None,
    note: str = "",
) -> Claim:
    """Weaviate's figure is the larger one."""
    own = given or {}
    return Claim(text, metric, Side(part, own, _WEAVIATE), Side(part, own, _MILVUS), note=note)


_ARXIV = {"dataset": "arxiv-titles-384"}
_HM: dict[str, Scalar] = {"dataset": "h-and-m-2048"}
CLAIMS = (
    _milvus(
        "Milvus loads arXiv's titles 2.04 times as fast as Weaviate", "throughput", "ingest",
        {**_ARXIV, "rows": 2_138_591}, 2.0,
    ),
    _milvus(
        "Milvus loads word vectors faster than Weaviate", "throughput", "ingest",
        {"dataset": "glove-100-angular"},
    ),
    _weaviate(
        "Weaviate loads a few rows with columns faster than Milvus", "throughput", "ingest",
        {**_HM, "rows": 1_000},
    ),
    _milvus(
        "Milvus loads many rows with columns faster than Weaviate", "throughput", "ingest",
        {**_HM, "rows": 105_100},
    ),
    Claim(
        "Indexes on all columns make the load longer", "ingest_time",
        Side("scalar_index_overhead", {"indexed": True}),
        Side("scalar_index_overhead", {"indexed": False}),
        note="Weaviate was loaded in batches of 100 with them, of 2,000 without",
    ),
    _weaviate(
        "Indexes on all columns cost Weaviate more than Milvus", "overhead",
        "scalar_index_overhead",
    ),
    _milvus(
        "Milvus takes 2.1 to 5.8 times the disk of Weaviate", "disk", "storage", least=2.1,
        note="read off a plot, where Weaviate's word vectors take less than the vectors themselves",
    ),
    _milvus(
        "Milvus answers more searches per second than Weaviate", "qps", "concurrency",
        note=_AT_EQUAL_EF,
    ),
    Claim(
        "Eight clients get more than one", "qps",
        Side("concurrency", {"clients": 8}), Side("concurrency", {"clients": 1}),
        note="theirs had eight cores, beyond which more clients brought nothing",
    ),
    Claim(
        "Thirty-two clients get less than sixteen", "qps",
        Side("concurrency", {"clients": 16}), Side("concurrency", {"clients": 32}),
    ),
    Claim(
        "A larger ef finds more", "recall",
        Side("ef_sweep", {"ef_search": 512}), Side("ef_sweep", {"ef_search": 128}),
    ),
    Claim(
        "A larger ef answers fewer searches per second", "qps",
        Side("ef_sweep", {"ef_search": 128}), Side("ef_sweep", {"ef_search": 512}),
    ),
    _milvus("Milvus finds more than Weaviate at equal ef", "recall", "ef_sweep"),
    Claim(
        "An index on the column makes a filtered search faster", "qps",
        Side("filtered", {"indexed": True}), Side("filtered", {"indexed": False}),
    ),
    _milvus(
        "With an index on the column, Milvus filters faster than Weaviate", "qps", "filtered",
        {"indexed": True}, note=_AT_EQUAL_EF,
    ),
    _weaviate(
        "Without an index on the column, Weaviate filters faster than Milvus", "qps", "filtered",
        {"indexed": False}, note=_AT_EQUAL_EF,
    ),
    _milvus(
        "In anomaly detection Milvus answers more searches per second", "qps", "anomaly",
        note=_AT_EQUAL_EF,
    ),
    _milvus("In anomaly detection Milvus loads faster", "throughput", "anomaly"),
    Claim(
        "One node answers more searches than two that share its machine",
        "qps",
        Side("sharded_concurrency", {"shards": 1}),
        Side("sharded_concurrency", {"shards": SHARDS}),
        note="both have all processors of the machine; at equal ef, of which each of two shards"
        " looks at as many, so that two find more",
    ),
    Claim(
        "One node loads faster than two that share its machine",
        "throughput",
        Side("ingest"),
        Side("sharded_ingest", {"shards": SHARDS}),
        note="the text says so; its figure 22 shows the opposite, and its script for one node"
        " had left the shards on",
    ),
)  # fmt: skip
