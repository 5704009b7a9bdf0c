"""Longbow's performance page: puts, gets and searches over Arrow Flight."""

from __future__ import annotations

from dataclasses import replace

from vectrial_reproduce.reports.model import (
    Absence,
    Arm,
    Ask,
    Claim,
    ClaimSide,
    Measure,
    Note,
    Part,
    Reproduction,
    Scalar,
)

_ARMS = (Arm("Longbow", "longbow", "hnsw"),)
_REFERENCE = "reference server"
#: The stand-in where Longbow cannot run.
_FLAT = Arm(
    "Longbow", "flight", "flat",
    note="the reference server of Arrow Flight that comes with Vectrial, one Python process"
    " that compares with every row, and no Longbow; one is measured where"
    " VECTRIAL_LONGBOW_BIN or VECTRIAL_LONGBOW_ADDRESS names it",
    here=_REFERENCE,
)  # fmt: skip
#: An index that is built, with Longbow's own parameters.
_GRAPH = Arm("Longbow", "flight", "hnsw", {"m": 32, "ef_construction": 400}, here=_REFERENCE)
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
#: Theirs is one whole read, ours are whole reads for a second.
_ONE_READ = {"min_s": 0.0}
#: A tenth of the rows: theirs is not stated.
_FILTERED = 0.1
#: Number of different filters of the queries: as many as possible.
_FILTERS = 64


#: Description of the filter, by the predicate that was measured.
_FILTER_SAID: dict[Scalar, str] = {
    "independent": f"{_FILTERS} different filters, each for some of the queries; every one keeps"
    " exactly a tenth, theirs is not stated",
    "column": "one filter for all queries; it keeps a tenth, theirs is not stated",
}
#: Parameters of the searches under filters: those without are of the same load.
_UNDER_FILTERS = {"predicate": tuple(_FILTER_SAID), "selectivity": _FILTERED}


def _put_part(dim: int) -> Part:
    """Puts of every size that the report has at either dimension, and whole reads of each."""
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
                {"operations": ["put", "get"], "clients": [1], "min_s": 1.0},
                {"sizes": (3_000, 10_000, 15_000, 50_000)},
                _ONE_READ,
            ),
        ),
        measures=(
            Measure(
                ("ingest", "put"), "transport", "put", "payload_mb_per_s",
                note=f"acknowledged, without a graph yet; {_BYTES_OF_TEXT}",
            ),
            Measure(
                ("ingest", "put_rows"), "transport", "put", "rows_per_s",
                note="acknowledged, without a graph yet",
            ),
        ),
        batch_rows=50_000,
    )  # fmt: skip


def _reference_part(part: Part) -> Part:
    """The part on the reference server, if Longbow cannot run."""
    return part.substitute("longbow", _FLAT, "reference", "the reference server")


def _graph_part() -> Part:
    """The smaller sizes once more, built as a graph: 50,000 rows of it take minutes."""
    sizes = (3_000, 10_000)
    put = _put_part(128)
    (ask,) = put.asks
    return replace(
        put,
        name="put-128-graph",
        title="Put into a graph, 128 dimensions",
        rows=max(sizes),
        arms=(_GRAPH,),
        asks=(replace(ask, sizes={"sizes": sizes}),),
        measures=(),
        instead_of="longbow",
    )


def _hybrid(dim: int, sources: tuple[str, ...], texts: str) -> Part:
    """The hybrid part. The report's text was a column of made-up words. texts: description of
    ours."""
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
                note="with a text index, which theirs had not on the column that it names;"
                f" {texts}; their texts were ten of ten words that come alike, and every query"
                " asked for the same two; 500 of the rows are taken out as the queries",
            ),
        ),
    )  # fmt: skip


_PARTS = (
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
                _ONE_READ,
            ),
        ),
        measures=(
            Measure(
                ("transport", "put"),
                "transport",
                "put",
                "payload_mb_per_s",
                where={"clients": 1},
                note=f"acknowledged, without a graph yet; {_BYTES}",
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
                    "predicates": ["independent"],
                    "pivots": _FILTERS,
                    "payload_index": ["on"],
                    "own": False,
                    "clients": [1],
                    "min_s": 0.0,
                    "warmup_queries": 0,
                },
                faithful={"predicates": ["column"], "checks": 0},
            ),
        ),
        measures=tuple(
            Measure(
                ("search", metric),
                "filtered",
                "search",
                metric,
                given={"filter": filtered},
                where=where,
                same_load={} if filtered else _UNDER_FILTERS,
                scans=True,
                recall=True,
                chosen=_FILTER_SAID,
            )
            for filtered, where in (
                (False, {"predicate": "none", "selectivity": 1.0}),
                (True, _UNDER_FILTERS),
            )
            for metric in ("qps", "latency_p50", "latency_p99")
        ),
    ),
    _put_part(128),
    _put_part(384),
    _hybrid(128, ("uniform-128-{rows}-text",), _MADE_UP),
    _hybrid(
        384,
        ("debian-minilm-384", "uniform-384-{rows}-text"),
        "Debian's package descriptions and their vectors where that dataset is at hand,"
        f" otherwise {_MADE_UP}",
    ),
)

REPORT = Reproduction(
    name="longbow",
    title="Longbow: Performance Benchmarks",
    document="Longbow's performance page, January 2026 (three states of its code on one page)",
    machine="MacBook Pro with Apple silicon, loopback, one run of each",
    scale=0.2,
    server_memory="1GB",  # 4 GB in a stress test, without saying which figures are of it
    parts=(*_PARTS, *map(_reference_part, _PARTS), _graph_part()),
    claims=(
        Claim(
            "A filter brings 25 % more searches per second",
            "qps",
            ClaimSide("search", {"filter": True}),
            ClaimSide("search", {"filter": False}),
            least=1.25,
            note="how many rows the filter leaves is not stated; here, a tenth",
        ),
        Claim(
            "A filter cuts p99 by 61 %",
            "latency_p99",
            ClaimSide("search", {"filter": False}),
            ClaimSide("search", {"filter": True}),
            least=2.57,
            note="how many rows the filter leaves is not stated; here, a tenth",
        ),
        Claim(
            "Fifteen thousand rows are put faster than three thousand",
            "put",
            ClaimSide("ingest", {"rows": 15_000}),
            ClaimSide("ingest", {"rows": 3_000}),
            note="published so of 128 dimensions, and the other way round of 384",
        ),
        Claim(
            "Of 128 dimensions fifteen thousand rows are put fastest",
            "put",
            ClaimSide("ingest", {"rows": 15_000, "dim": 128}),
            ClaimSide("ingest", {"rows": (3_000, 50_000), "dim": 128}),
        ),
        Claim(
            "Of 384 dimensions fifty thousand rows are put fastest",
            "put",
            ClaimSide("ingest", {"rows": 50_000, "dim": 384}),
            ClaimSide("ingest", {"rows": (3_000, 15_000), "dim": 384}),
        ),
        Claim(
            "The p99 of a hybrid search triples from three to fifteen thousand rows",
            "hybrid_latency_p99",
            ClaimSide("ingest", {"rows": 15_000, "dim": 128}),
            ClaimSide("ingest", {"rows": 3_000, "dim": 128}),
            least=3.0,
        ),
        Claim(
            "TCP is better than a Unix socket",
            absent=(Absence.NEVER, "Nothing here connects through a Unix socket."),
        ),
        Claim(
            "It asks clients to slow down before its log overflows",
            absent=(Absence.NEVER, "Nothing here fills its log so far, or would slow down then."),
        ),
        Claim(
            "Four optimisations make it faster",
            absent=(Absence.CANNOT, "There are no builds of Longbow without each of them."),
        ),
    ),
    notes=(
        Note(
            "the client",
            "Arrow Flight's for Python, with a ticket of JSON for each search",
            "the engine over the wire; Arrow Flight's client for Python where rows are read whole"
            " and in hybrid searches",
            "Arrow Flight's client for Python instead of the wire",
        ),
        Note(
            "puts",
            "acknowledged only: the log is synced and the index built afterwards; 3,000 rows in"
            " 8 ms, once",
            "the compared figures are acknowledged rows per second too. Where the reference server"
            " stands in, it has no graph to build and is one Python process",
            "the same",
        ),
        Note(
            "acknowledged and indexed",
            "how long the index took after the last acknowledgement is not told",
            "of each put, the run of its part has rows a second acknowledged and until ready side"
            " by side (`vectrial report FOLDER/put-128`). The reference server acknowledges a row"
            " when it is in the index: between its two rates lies only the flush to the disk."
            " Where it stands in, 3,000 and 10,000 rows of 128 dimensions are therefore put once"
            " more into a graph (m = 32 and ef_construction = 400, as Longbow's), which is compared"
            " with nothing: what building costs is the distance between the two indexes",
            "the same",
        ),
        Note(
            "sizes",
            "puts of 3,000, 15,000 and 50,000 rows at 128 and 384 dimensions, without gets; a put"
            " and a get of 10,000 rows at 128",
            "at both dimensions 10,000 rows too, and each put is read out whole again and again"
            " for a second; what has no published figure, the gets among it, is in the runs of"
            " those parts (`vectrial report FOLDER/put-384`)",
            "each size is read out once",
        ),
        Note(
            "what is “indexed”",
            "a sleep of five seconds; recall was never measured",
            "waited for, and recall is told beside every search",
            "not repeated: nothing here sleeps instead of waiting, and recall is told all the same",
        ),
        Note(
            "the filter",
            "the same in every query, so that its bitset is cached; selectivity not stated",
            f"{_FILTERS} different filters, each for some of the queries, on a column that has"
            " nothing to do with the vectors; every one keeps exactly a tenth of the rows. Filtered"
            " recall beside it; 200 answers are looked at, and a row that its filter does not keep"
            " makes the figures invalid. The reference server remembers which rows a filter keeps,"
            " so that only the first search under each evaluates it: of 1,000 searches at most"
            f" {_FILTERS}, which are enough to show in the 99th percentile",
            "one bound on a numeric column, the same in every query, that keeps a tenth of the"
            " rows; no answer is looked at",
        ),
        Note(
            "queries",
            "1,000 that differ; its server caches answers for a minute, also of what has changed"
            " since",
            "in a collection each is timed once without a filter and once under one. Where it is"
            " without a filter, the correctness gate has asked the first fifty before the clock"
            " starts: a server that remembers answers has these at hand. Longbow is asked by the"
            " action that computes each answer, and the reference server remembers none",
            "the same",
        ),
        Note(
            "puts and gets at once",
            "four threads, each putting 100 rows into a collection of its own and reading it whole,"
            " by turns: reads grow, and operations a second depend on how long it went on (not"
            " stated)",
            "the same for 10 s, in four processes; the run of that part tells puts and reads apart"
            " (`vectrial report FOLDER/tcp`)",
            "the same, in four processes: threads of one Python process would wait for each other",
        ),
        Note(
            "the index",
            "a graph, searched with 50 candidates by a request that cannot ask for more; on vectors"
            " without structure its recall was .70 of 5,000 rows where we could try it",
            "Longbow's own graph, with the recall beside every figure. Where the reference server"
            " stands in, it compares every row, so that puts are those of the transport and recall"
            " is 1: a graph over 100,000 such vectors takes minutes",
            "not repeated: searches of a graph are compared at equal recall, and theirs is unknown",
        ),
        Note(
            "hybrid",
            "run without a text index on the column that it names, so that only the vectors were"
            " ranked; every query had the same text",
            "with a text index: each query is a row that was taken out, by its vector and its text,"
            " at α = 0.5. Rankings of 20 rows each are fused by reciprocal ranks, as Longbow does,"
            " and beside every latency is told how many of the answers an exact fusion holds",
            "not repeated: without a text index it would be no hybrid search, but the dense one"
            " under another name",
        ),
    ),
)
