"""Longbow's performance page: puts, gets and searches over Arrow Flight."""

from __future__ import annotations

from vectrial.reproduce.model import Arm, Ask, Measure, Note, Part, Reproduction

_ARMS = (
    Arm(
        "Longbow", "flight", "flat",
        note="the reference server of Arrow Flight that comes with Vectrial, one Python process"
        " that compares with every row, and no Longbow; one is measured where"
        " VECTRIAL_FLIGHT_ADDRESS names it",
        here="reference server", itself_at_address=True,
    ),
)  # fmt: skip
#: Bytes that are counted, theirs as Arrow: 528 a row there, 520 here.
_BYTES = (
    "their MB are 2^20 bytes of ids, vectors and time stamps, ours 10^6 of ids and vectors:"
    " for the same rows a second ours are 1.03 times theirs"
)
#: They had a text column: 607 bytes a row at 128 dimensions, 1,636 at 384.
_BYTES_OF_TEXT = (
    "their MB are 2^20 bytes of rows with a text of about 90 bytes, ours 10^6 of ids and vectors:"
    " compare the rows a second"
)
_MADE_UP = "uniform vectors, and texts of ten of 5,000 made-up words, as uneven as those of people"
#: A tenth of the rows: theirs is not stated.
_FILTERED = 0.1


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
        asks=(
            Ask(
                "transport",
                {"clients": [1], "min_s": 0.0, "mixed_s": 0.0},
                {"sizes": (3_000, 15_000, 50_000)},
            ),
        ),
        measures=(
            Measure(
                ("ingest", "put"), "transport", "put", "payload_mb_per_s",
                note=f"acknowledged when kept, without a graph; {_BYTES_OF_TEXT}",
            ),
            Measure(
                ("ingest", "put_rows"), "transport", "put", "rows_per_s",
                note="acknowledged when kept, without a graph",
            ),
        ),
        batch_rows=50_000,
    )  # fmt: skip


def _hybrid(dim: int, sources: tuple[str, ...], told: str) -> Part:
    """Their text was a column of made-up words. told: what ours is."""
    return Part(
        name=f"hybrid-{dim}",
        title=f"Dense and text together, {dim} dimensions",
        dataset=f"uniform-{dim}",
        sources=sources,
        rows=50_000,
        queries=1000,
        k=10,
        arms=_ARMS,
        asks=(
            Ask(
                "hybrid",
                # Both rankings of 2 k rows, as Longbow has them, and no query asked twice.
                {"alphas": [0.5], "candidates": 20, "min_s": 0.0, "warmup_queries": 0},
                {"sizes": (3_000, 15_000, 50_000)},
            ),
        ),
        measures=(
            Measure(
                ("ingest", "hybrid_latency_p99"), "hybrid", "search", "latency_p99",
                recall=True,
                note=f"with a text index, which theirs had not on the column that it names; {told};"
                " their texts were ten of ten words that come alike, and every query asked for the"
                " same two; 500 of the rows are taken out as the queries",
            ),
        ),
    )  # fmt: skip


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
                Ask(
                    "transport",
                    {"clients": [1, 4], "page_rows": 10_000, "mixed_s": 10.0, "mixed_rows": 100},
                    {"sizes": (10_000,)},
                ),
            ),
            measures=(
                Measure(
                    ("transport", "put"),
                    "transport",
                    "put",
                    "payload_mb_per_s",
                    where={"clients": 1},
                    note=f"acknowledged when kept, without a graph; {_BYTES}",
                ),
                Measure(
                    ("transport", "get"),
                    "transport",
                    "get",
                    "export_mb_per_s",
                    where={"clients": 1},
                    note=_BYTES,
                ),
                *(
                    Measure(
                        ("transport", published),
                        "transport",
                        "mixed",
                        ours,
                        note="puts of 100 rows and whole reads of what the caller has put, by"
                        " turns for 10 s: reads grow, and the figure depends on the time",
                    )
                    for published, ours in (
                        ("mixed", "qps"),
                        ("latency_p50", "latency_p50"),
                        ("latency_p99", "latency_p99"),
                    )
                ),
            ),
            batch_rows=667,
        ),
        Part(
            name="search",
            title="Search, 100,000 rows",
            dataset="uniform-128",
            sources=("uniform-128-{rows}-meta",),
            rows=100_000,
            queries=1000,
            k=10,
            arms=_ARMS,
            asks=(
                Ask(
                    "filtered",
                    {
                        "selectivities": [_FILTERED],
                        "predicates": ["column"],
                        "payload_index": ["on"],
                        "checks": 0,
                        "own": False,
                        "clients": [1],
                        "min_s": 0.0,
                        "warmup_queries": 0,
                    },
                ),
            ),
            measures=tuple(
                Measure(
                    ("search", metric),
                    "filtered",
                    "search",
                    metric,
                    given={"filter": filtered},
                    where={"predicate": predicate, "selectivity": share},
                    scans=True,
                    recall=True,
                    note=note,
                )
                for filtered, predicate, share, note in (
                    (False, "none", 1.0, ""),
                    (True, "column", _FILTERED, "the filter keeps a tenth, theirs is not stated"),
                )
                for metric in ("qps", "latency_p50", "latency_p99")
            ),
        ),
        _put(128),
        _put(384),
        _hybrid(128, ("uniform-128-{rows}-text",), _MADE_UP),
        _hybrid(
            384,
            ("debian-minilm-384", "uniform-384-{rows}-text"),
            "Debian's package descriptions and their vectors where that dataset is at hand,"
            f" otherwise {_MADE_UP}",
        ),
    ),
    notes=(
        Note(
            "puts",
            "acknowledged only: the log is synced and the index built afterwards; 3,000 rows in"
            " 8 ms, once",
            "acknowledged rows per second too: the reference server has no graph to build, and is"
            " one Python process",
        ),
        Note(
            "what is “indexed”",
            "a sleep of five seconds; recall was never measured",
            "waited for, and recall is told beside every search",
        ),
        Note(
            "the filter",
            "the same in every query, so that its bitset is cached; selectivity not stated",
            "a bound on a numeric column that keeps a tenth of the rows, the same in every query,"
            " after the same queries without it; filtered recall beside it",
        ),
        Note(
            "queries",
            "its server caches answers for a minute, also of what has changed since",
            "no query is asked twice, and none before the clock starts",
        ),
        Note(
            "puts and gets at once",
            "four threads, each putting 100 rows into a collection of its own and reading it whole,"
            " by turns: reads grow, and operations a second depend on how long it went on (not"
            " stated)",
            "the same for 10 s, in four processes; the run of that part tells puts and reads apart"
            " (`vectrial report FOLDER/tcp`)",
        ),
        Note(
            "the index",
            "a graph, searched with 50 candidates by a request that cannot ask for more; on vectors"
            " without structure its recall was .70 of 5,000 rows where we could try it",
            "the reference server compares every row, so that puts are those of the transport and"
            " recall is 1; a graph over 100,000 such vectors takes minutes, and found a tenth of"
            " what it should with 10 candidates",
        ),
        Note(
            "hybrid",
            "run without a text index on the column that it names, so that only the vectors were"
            " ranked; every query had the same text",
            "with a text index: each query is a row that was taken out, by its vector and its text,"
            " at α = 0.5. Rankings of 20 rows each are fused by reciprocal ranks, as Longbow does,"
            " and beside every latency is told how many of the answers an exact fusion holds",
        ),
    ),
)
