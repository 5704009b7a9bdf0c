"""Conclusions of DocArray's benchmark on SIFT1M."""

from __future__ import annotations

from vectrial_reproduce.reports.model import Absence, Claim, ClaimSide, RunReading

_SLOWER = ("Qdrant", "Weaviate", "ElasticSearch")
_SERVERS = (*_SLOWER, "Redis")
_NO_NETWORK = "it runs in the client's process: what is between them is a network too"
_BUILDS = "one build stands in all rows that differ in the ef of searches alone"

#: Its rule is the same in both of DocArray's reports; measured on uniform vectors, as in the first.
FEW_ROWS = Claim(
    "Below 10,000 rows memory is enough: a search takes less than 20 ms",
    readings=(
        (
            20_000.0,
            RunReading(
                "docarray-1m-full-size/same", "docarray-memory", "search", "search",
                "latency_mean", rows=10_000,
            ),
        ),
    ),
    note="20 ms over the mean of a search of 10,000 rows",
)  # fmt: skip
LITTLE_MEMORY = Claim(
    "Where memory is short, SQLite; else Weaviate, Qdrant or Elasticsearch",
    absent=(
        Absence.NOT_YET,
        "It is advice; vectrial fit finds the memory that a store needs, and was not asked of"
        " these.",
    ),
)


def _changes(system: str, others: tuple[str, ...], operation: str, verb: str) -> Claim:
    return Claim(
        f"{system} {verb} faster than Weaviate and Elasticsearch",
        operation,
        ClaimSide("crud", stores=others),
        ClaimSide("crud", stores=(system,)),
        note=_NO_NETWORK if system == "AnnLite" else "",
    )


CLAIMS = (
    FEW_ROWS,
    LITTLE_MEMORY,
    *(
        _changes(system, ("Weaviate", "ElasticSearch"), operation, verb)
        for system in ("Redis", "AnnLite")
        for operation, verb in (
            ("create", "loads"),
            ("update", "updates a row"),
            ("delete", "deletes a row"),
        )
    ),
    Claim(
        "A larger ef_construction finds more",
        "recall",
        ClaimSide("crud", {"ef_construction": 256}),
        ClaimSide("crud", {"ef_construction": 64}),
    ),
    Claim(
        "More links are for data of a high intrinsic dimension",
        absent=(
            Absence.NOT_YET,
            "It takes two datasets that differ in their intrinsic dimension alone; both reports"
            " have one each.",
        ),
    ),
    Claim(
        "Clients belong on other machines than servers",
        absent=(
            Absence.NOT_YET,
            "Searches can be sent from other machines (placement.client_machines); no committed"
            " result has a pair.",
        ),
    ),
    Claim(
        "Throughput scales out when the client divides the rows among several servers",
        absent=(Absence.NEVER, "Nothing here divides rows by the client."),
    ),
    Claim(
        "AnnLite finds faster than every server",
        "find_by_vector",
        ClaimSide("crud", stores=_SERVERS),
        ClaimSide("crud", stores=("AnnLite",)),
        note=_NO_NETWORK,
    ),
    Claim(
        "AnnLite reads a row faster than every server",
        "read",
        ClaimSide("crud", stores=_SERVERS),
        ClaimSide("crud", stores=("AnnLite",)),
        note=_NO_NETWORK,
    ),
    Claim(
        "Redis reads a row faster than the other servers",
        "read",
        ClaimSide("crud", stores=_SLOWER),
        ClaimSide("crud", stores=("Redis",)),
    ),
    Claim(
        "Redis finds faster than the other servers",
        "find_by_vector",
        ClaimSide("crud", stores=_SLOWER),
        ClaimSide("crud", stores=("Redis",)),
        note="at equal ef, which is not equal recall",
    ),
    Claim(
        "Redis finds rows by condition faster than the other servers",
        "find_by_condition",
        ClaimSide("crud", stores=_SLOWER),
        ClaimSide("crud", stores=("Redis",)),
    ),
    Claim(
        "Qdrant finds the most at an ef of 32",
        "recall",
        ClaimSide("crud", {"ef_search": 32}, ("Qdrant",)),
        ClaimSide("crud", {"ef_search": 32}, ("AnnLite", "Weaviate", "ElasticSearch", "Redis")),
        note="its index was not waited for: what is not indexed is searched exactly",
    ),
    Claim(
        "A larger ef finds more",
        "recall",
        ClaimSide("crud", {"ef_search": 256}),
        ClaimSide("crud", {"ef_search": 32}),
    ),
    Claim(
        "A larger ef takes longer",
        "find_by_vector",
        ClaimSide("crud", {"ef_search": 256}),
        ClaimSide("crud", {"ef_search": 32}),
    ),
    Claim(
        "More links find more",
        "recall",
        ClaimSide("crud", {"m": 32}),
        ClaimSide("crud", {"m": 16}),
    ),
    Claim(
        "More links make a build longer",
        "create",
        ClaimSide("crud", {"m": 32}),
        ClaimSide("crud", {"m": 16}),
        note=_BUILDS,
    ),
    Claim(
        "A larger ef_construction makes a build longer",
        "create",
        ClaimSide("crud", {"ef_construction": 256}),
        ClaimSide("crud", {"ef_construction": 64}),
        note=_BUILDS,
    ),
    Claim(
        "SQLite finds slower than memory",
        "find_by_vector",
        ClaimSide("crud", stores=("SQLite",)),
        ClaimSide("crud", stores=("In-Memory",)),
    ),
    Claim(
        "SQLite deletes slower than memory",
        "delete",
        ClaimSide("crud", stores=("SQLite",)),
        ClaimSide("crud", stores=("In-Memory",)),
    ),
)
