"""Longbow's performance page: puts, gets and searches over Arrow Flight."""

from __future__ import annotations

from vectrial.reproduce.model import Arm, Ask, Measure, Note, Part, Reproduction

_ARMS = (
    Arm(
        "Longbow", "flight", "hnsw", {},
        "the reference server of Arrow Flight that comes with Vectrial, unless"
        " VECTRIAL_FLIGHT_ADDRESS names a Longbow",
    ),
)  # fmt: skip
_PUT = (
    Measure(("ingest", "put"), "ingest", "load", "mb_per_s", note="acknowledged, not yet indexed"),
    Measure(("ingest", "put_rows"), "ingest", "load", "rows_per_s"),
)


def _put(dim: int) -> Part:
    return Part(
        name=f"put-{dim}",
        title=f"Put, {dim} dimensions",
        dataset=f"uniform-{dim}",
        sources=(f"uniform-{dim}-{{rows}}",),
        rows=50_000,
        queries=1000,
        k=10,
        arms=_ARMS,
        asks=(Ask("ingest", {"probes": 0}, {"checkpoints": (3_000, 15_000, 50_000)}),),
        measures=_PUT,
        batch_rows=50_000,
    )


REPORT = Reproduction(
    name="longbow",
    title="Longbow: Performance Benchmarks",
    document="Longbow's performance page, January 2026 (three states of its code on one page)",
    machine="MacBook Pro with Apple silicon, loopback, one run of each",
    scale=0.2,
    parts=(
        Part(
            name="tcp",
            title="TCP baseline, 10,000 rows",
            dataset="uniform-128",
            sources=("uniform-128-{rows}",),
            rows=10_000,
            queries=1000,
            k=10,
            arms=_ARMS,
            asks=(
                Ask("ingest", {"checkpoints": [1.0], "probes": 0}),
                Ask("export", {"page_rows": 10_000}),
            ),
            measures=(
                Measure(("transport", "put"), "ingest", "load", "mb_per_s"),
                Measure(("transport", "get"), "export", "export", "export_mb_per_s"),
            ),
            batch_rows=667,
        ),
        Part(
            name="search",
            title="Search, 100,000 rows",
            dataset="uniform-128",
            sources=("uniform-128-{rows}",),
            rows=100_000,
            queries=1000,
            k=10,
            arms=_ARMS,
            asks=(Ask("recall_sweep", {"min_s": 1.0, "max_s": 20.0}),),
            measures=tuple(
                Measure(
                    ("search", metric), "recall_sweep", "search", metric, given={"filter": False}
                )
                for metric in ("qps", "latency_p50", "latency_p99")
            ),
        ),
        _put(128),
        _put(384),
    ),
    not_yet={
        "transport": "not yet: puts and gets by several callers at once",
        "search": "not yet: a filter over the whole run",
        "ingest": "not yet: dense and text together",
    },
    notes=(
        Note(
            "puts",
            "acknowledged only: the log is synced and the index built afterwards; 3,000 rows in"
            " 8 ms, once",
            "acknowledged rows per second, with the time until all are indexed in the same run",
        ),
        Note(
            "what is “indexed”",
            "a sleep of five seconds; recall was never measured",
            "waited for, and recall stands beside every search",
        ),
        Note(
            "the filter",
            "the same in every query, so that its bitset is cached; selectivity not stated",
            "not compared",
        ),
        Note(
            "queries",
            "its server caches answers for a minute, also of what has changed since",
            "no query is asked twice before all others were",
        ),
        Note(
            "hybrid",
            "run without a text index on the column that it names",
            "not compared",
        ),
    ),
)
