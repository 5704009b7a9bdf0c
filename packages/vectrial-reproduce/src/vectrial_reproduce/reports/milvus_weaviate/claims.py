"""Conclusions of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vectrial_reproduce.reports.model import Absence, Claim, ClaimSide, RunReading, Scalar

#: Shards of a collection in its cluster.
SHARDS = 2

Given = Mapping[str, Scalar | tuple[Scalar, ...]]
_MILVUS, _WEAVIATE = ("Milvus",), ("Weaviate",)
_AT_EQUAL_EF = "at equal ef, which is not equal recall"


def _milvus(
    text: str,
    metric: str,
    part: str,
    conditions: Given | None = None,
    smallest_ratio: float = 1.0,
    note: str = "",
) -> Claim:
    """A claim that Milvus' figure is the larger one."""
    own = conditions or {}
    return Claim(
        text,
        metric,
        ClaimSide(part, own, _MILVUS),
        ClaimSide(part, own, _WEAVIATE),
        least=smallest_ratio,
        note=note,
    )


def _weaviate(
    text: str,
    metric: str,
    part: str,
    conditions: Given | None = None,
    note: str = "",
) -> Claim:
    """A claim that Weaviate's figure is the larger one."""
    own = conditions or {}
    return Claim(
        text, metric, ClaimSide(part, own, _WEAVIATE), ClaimSide(part, own, _MILVUS), note=note
    )


def _lead_claim(
    text: str, metric: str, first: ClaimSide, second: ClaimSide, note: str = ""
) -> Claim:
    """A claim that Milvus' figure over Weaviate's is larger on one side than on the other."""
    sides = [
        replace(side, stores=stores) for side in (first, second) for stores in (_MILVUS, _WEAVIATE)
    ]
    return Claim(text, metric, sides[0], sides[1], (sides[2], sides[3]), note=note)


_GLOVE: dict[str, Scalar] = {"dataset": "glove-100-angular"}
_ARXIV: dict[str, Scalar] = {"dataset": "arxiv-titles-384"}
_HM: dict[str, Scalar] = {"dataset": "h-and-m-2048"}
_FULL, _SMALL = (1_183_514, 2_138_591, 105_100), (10_000, 20_000, 1_000)
_CLUSTER: dict[str, Any] = {
    "result": "cluster", "experiment": "search", "phase": "search",
    "where": {"clients": 8, "ef_search": 64},
}  # fmt: skip


def _cost(store: str, nodes: int) -> RunReading:
    """Reading of the servers' processor time per query."""
    return RunReading(store=store, metric="server_cpu_us_per_op", nodes=nodes, **_CLUSTER)


def _available(store: str, metric: str) -> RunReading:
    return RunReading(
        "milvus-weaviate/arxiv", store, "time_to_searchable", "searchable", metric, rows=42_772
    )


def _disk(store: str) -> RunReading:
    return RunReading(
        "milvus-weaviate-glove/glove", store, "ingest", "settled", "disk_bytes", rows=336_479
    )


CLAIMS = (
    _milvus(
        "Milvus loads arXiv's titles 2.04 times as fast as Weaviate", "throughput", "ingest",
        {**_ARXIV, "rows": 2_138_591}, 2.0,
    ),
    _milvus("Milvus loads word vectors faster than Weaviate", "throughput", "ingest", _GLOVE),
    _weaviate(
        "Weaviate loads a few rows with columns faster than Milvus", "throughput", "ingest",
        {**_HM, "rows": 1_000},
    ),
    _milvus(
        "Milvus loads many rows with columns faster than Weaviate", "throughput", "ingest",
        {**_HM, "rows": 105_100},
    ),
    _lead_claim(
        "Weaviate's loads slow down more with their size than Milvus'", "throughput",
        ClaimSide("ingest", {"rows": _FULL}), ClaimSide("ingest", {"rows": _SMALL}),
    ),
    Claim(
        "Milvus' load of H&M gets faster from 1,000 to 10,000 rows", "throughput",
        ClaimSide("ingest", {**_HM, "rows": 10_000}, _MILVUS),
        ClaimSide("ingest", {**_HM, "rows": 1_000}, _MILVUS),
    ),
    Claim(
        "Weaviate's throughput on arXiv halves from 20,000 rows to all", "throughput",
        ClaimSide("ingest", {**_ARXIV, "rows": 20_000}, _WEAVIATE),
        ClaimSide("ingest", {**_ARXIV, "rows": 2_138_591}, _WEAVIATE),
        least=1.9,
    ),
    Claim(
        "Milvus' index takes 6.2 times as long as its load (86.1 % against 13.9 %)", "index_time",
        ClaimSide("load_vs_index", {**_GLOVE, "rows": 1_183_514}),
        ClaimSide("load_vs_index", {**_GLOVE, "rows": 1_183_514}, metric="load_time"),
        least=5.0,
        note="the report's load is until the flush, its index what comes after",
    ),
    Claim(
        "Milvus' rows are indexed long after they were acknowledged, Weaviate's at once",
        readings=(
            (_available("milvus", "ready_s"), _available("milvus", "load_s")),
            (_available("weaviate", "load_s"), _available("milvus", "load_s")),
        ),
        note="the seconds until Milvus has indexed over those until it has acknowledged; and those"
        " until Weaviate has acknowledged, when all is indexed, over Milvus'",
    ),
    Claim(
        "Milvus loads more than 0.5 MB of vectors a second",
        readings=tuple(
            (
                RunReading(result, "milvus", "ingest", "ingest", "ready_rows_per_s", rows=rows),
                0.5e6 / (4 * dimensions),
            )
            for result, rows, dimensions in (
                ("milvus-weaviate-glove/glove", 336_479, 100),
                ("milvus-weaviate/arxiv", 42_772, 384),
                ("milvus-weaviate-hnm/hnm", 69_000, 2048),
            )
        ),
        note="rows until ready over those of 0.5 MB, of its three datasets",
    ),
    Claim(
        "Indexes on all columns make the load longer", "ingest_time",
        ClaimSide("scalar_index_overhead", {"indexed": True}),
        ClaimSide("scalar_index_overhead", {"indexed": False}),
        note="Weaviate was loaded in batches of 100 with them, of 2,000 without",
    ),
    Claim(
        "Indexes on all columns double Weaviate's load (+109.8 %)", "ingest_time",
        ClaimSide("scalar_index_overhead", {"indexed": True}, _WEAVIATE),
        ClaimSide("scalar_index_overhead", {"indexed": False}, _WEAVIATE),
        least=2.0,
    ),
    Claim(
        "Indexes on all columns make Milvus' load a quarter longer (+25.9 %)", "ingest_time",
        ClaimSide("scalar_index_overhead", {"indexed": True}, _MILVUS),
        ClaimSide("scalar_index_overhead", {"indexed": False}, _MILVUS),
        least=1.25,
    ),
    _weaviate(
        "Indexes on all columns cost Weaviate more than Milvus", "overhead",
        "scalar_index_overhead",
    ),
    replace(
        _milvus(
            "At full size Milvus takes 2.1 to 5.8 times the disk of Weaviate", "disk", "storage",
            {"rows": _FULL}, smallest_ratio=2.1,
            note="read off a plot, where Weaviate's word vectors take less than the vectors"
            " themselves; its own ratio on arXiv is 1.4",
        ),
        most=5.8,
    ),
    Claim(
        "Of small vectors what is kept beside them outweighs them",
        readings=tuple((_disk(store), 2 * 336_479 * 400.0) for store in ("milvus", "weaviate")),
        note="bytes on disk over twice those of the vectors alone",
    ),
    _milvus(
        "Milvus answers more searches per second than Weaviate", "qps", "concurrency",
        note=_AT_EQUAL_EF,
    ),
    _weaviate(
        "With eight clients Weaviate answers more on word vectors", "qps", "concurrency",
        {**_GLOVE, "clients": 8}, note=_AT_EQUAL_EF,
    ),
    _lead_claim(
        "Milvus' lead in searches per second grows with the dimensions", "qps",
        ClaimSide("concurrency", {**_ARXIV, "rows": 2_138_591, "k": 10}),
        ClaimSide("concurrency", {**_GLOVE, "rows": 1_183_514, "k": 100}),
        note="the two datasets differ in k and size, too",
    ),
    Claim(
        "Eight clients get more than one", "qps",
        ClaimSide("concurrency", {"clients": 8}), ClaimSide("concurrency", {"clients": 1}),
        note="theirs had eight cores, beyond which more clients brought nothing",
    ),
    Claim(
        "Thirty-two clients get less than sixteen", "qps",
        ClaimSide("concurrency", {"clients": 16}), ClaimSide("concurrency", {"clients": 32}),
    ),
    Claim(
        "A larger ef finds more", "recall",
        ClaimSide("ef_sweep", {"ef_search": 512}), ClaimSide("ef_sweep", {"ef_search": 128}),
    ),
    Claim(
        "A larger ef finds ever less more", "recall",
        ClaimSide("ef_sweep", {"ef_search": 256}), ClaimSide("ef_sweep", {"ef_search": 128}),
        (ClaimSide("ef_sweep", {"ef_search": 512}), ClaimSide("ef_sweep", {"ef_search": 256})),
        note="the gain from 128 to 256 over that from 256 to 512",
    ),
    Claim(
        "On arXiv both find nearly all", "recall", ClaimSide("ef_sweep", _ARXIV), against=0.98,
        note="a recall above 0.98 at every ef",
    ),
    Claim(
        "A larger ef answers fewer searches per second", "qps",
        ClaimSide("ef_sweep", {"ef_search": 128}), ClaimSide("ef_sweep", {"ef_search": 512}),
    ),
    Claim(
        "Latency grows in proportion to ef", "latency_mean",
        ClaimSide("ef_sweep", {"ef_search": 512}), ClaimSide("ef_sweep", {"ef_search": 128}),
        least=3.0,
        note="fourfold from 128 to 512, or threefold at least; its own figures have ×1.8",
    ),
    Claim(
        "Weaviate takes longer to answer than Milvus", "latency_mean",
        ClaimSide("ef_sweep", stores=_WEAVIATE), ClaimSide("ef_sweep", stores=_MILVUS),
        note=_AT_EQUAL_EF,
    ),
    _milvus("Milvus finds more than Weaviate at equal ef", "recall", "ef_sweep"),
    Claim(
        "An index on the column makes a filtered search faster", "qps",
        ClaimSide("filtered", {"indexed": True}), ClaimSide("filtered", {"indexed": False}),
    ),
    _milvus(
        "With an index on the column, Milvus filters faster than Weaviate", "qps", "filtered",
        {"indexed": True}, note=_AT_EQUAL_EF,
    ),
    replace(
        _weaviate(
            "Without an index on the column, Weaviate filters faster than Milvus", "qps",
            "filtered", {"indexed": False}, note=_AT_EQUAL_EF,
        ),
        absent=(Absence.CANNOT, "Weaviate filters by no column without an index."),
    ),
    _milvus(
        "In anomaly detection Milvus answers more searches per second", "qps", "anomaly",
        note=_AT_EQUAL_EF,
    ),
    _milvus("In anomaly detection Milvus loads faster", "throughput", "anomaly"),
    Claim(
        "Similarities near 1 between images of one class are not realistic",
        absent=(Absence.NEVER, "It is a judgement of the data, without a figure."),
    ),
    Claim(
        "One node answers more searches than two that share its machine",
        "qps",
        ClaimSide("sharded_concurrency", {"shards": 1}),
        ClaimSide("sharded_concurrency", {"shards": SHARDS}),
        note="both have all processors of the machine; at equal ef, of which each of two shards"
        " looks at as many, so that two find more",
    ),
    Claim(
        "One node loads faster than two that share its machine",
        "throughput",
        ClaimSide("ingest"),
        ClaimSide("sharded_ingest", {"shards": SHARDS}),
        note="its section X.B speaks of searches per second alone, XII of a “lower performance”;"
        " its figure 22 shows the opposite for loads, and its script for one node had left the"
        " shards on",
    ),
    _weaviate(
        "In two shards Weaviate loads 10,000 rows faster than Milvus", "throughput",
        "sharded_ingest", {"rows": 10_000},
    ),
    _milvus(
        "In two shards Milvus loads 100,000 rows and more faster than Weaviate", "throughput",
        "sharded_ingest", {"rows": (100_000, 1_183_514)},
    ),
    _lead_claim(
        "In two shards Weaviate's loads slow down more with their size", "throughput",
        ClaimSide("sharded_ingest", {"rows": 1_183_514}),
        ClaimSide("sharded_ingest", {"rows": 10_000}),
    ),
    Claim(
        "The memory of 7.6 GB is the reason why loads in two shards slow down",
        absent=(
            Absence.NOT_YET,
            "The option --memory-limit sets it; no committed reproduction has a pair with and"
            " without it.",
        ),
    ),
    Claim(
        "Coordination and switches between processes are the reason why two shards are slower",
        absent=(
            Absence.NOT_YET,
            "Processor time and bytes on the links of a query are measured (results/cluster), and"
            " grow with the nodes; that they are the reason is not.",
        ),
    ),
    Claim(
        "Milvus gains more from scaling out than Weaviate",
        absent=(
            Absence.CANNOT,
            "Each node needs the hardware of the one; two cores do not have it. At equal total"
            " hardware nobody gains (results/cluster).",
        ),
    ),
    Claim(
        "More nodes cost Weaviate more for a search than Milvus",
        readings=((_cost("weaviate", 3), _cost("milvus", 3)),),
        note="processor time of three nodes for a search, at equal ef, Weaviate's over Milvus'",
    ),
)  # fmt: skip
