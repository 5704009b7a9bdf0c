"""What DocArray's benchmark on SIFT1M concludes from its figures."""

from __future__ import annotations

from vectrial.reports.model import Claim, Side

_SLOWER = ("Qdrant", "Weaviate", "ElasticSearch")
_SERVERS = (*_SLOWER, "Redis")
_NO_NETWORK = "it runs in the client's process: what is between them is a network too"
_BUILDS = "one build stands in all rows that differ in the ef of searches alone"

CLAIMS = (
    Claim(
        "AnnLite finds faster than every server",
        "find_by_vector",
        Side("crud", stores=_SERVERS),
        Side("crud", stores=("AnnLite",)),
        note=_NO_NETWORK,
    ),
    Claim(
        "AnnLite reads a row faster than every server",
        "read",
        Side("crud", stores=_SERVERS),
        Side("crud", stores=("AnnLite",)),
        note=_NO_NETWORK,
    ),
    Claim(
        "Redis reads a row faster than the other servers",
        "read",
        Side("crud", stores=_SLOWER),
        Side("crud", stores=("Redis",)),
    ),
    Claim(
        "Redis finds faster than the other servers",
        "find_by_vector",
        Side("crud", stores=_SLOWER),
        Side("crud", stores=("Redis",)),
        note="at equal ef, which is not equal recall",
    ),
    Claim(
        "Redis finds rows by condition faster than the other servers",
        "find_by_condition",
        Side("crud", stores=_SLOWER),
        Side("crud", stores=("Redis",)),
    ),
    Claim(
        "Qdrant finds the most at an ef of 32",
        "recall",
        Side("crud", {"ef_search": 32}, ("Qdrant",)),
        Side("crud", {"ef_search": 32}, ("AnnLite", "Weaviate", "ElasticSearch", "Redis")),
        note="its index was not waited for: what is not indexed is searched exactly",
    ),
    Claim(
        "A larger ef finds more",
        "recall",
        Side("crud", {"ef_search": 256}),
        Side("crud", {"ef_search": 32}),
    ),
    Claim(
        "A larger ef takes longer",
        "find_by_vector",
        Side("crud", {"ef_search": 256}),
        Side("crud", {"ef_search": 32}),
    ),
    Claim(
        "More links find more",
        "recall",
        Side("crud", {"m": 32}),
        Side("crud", {"m": 16}),
    ),
    Claim(
        "More links make a build longer",
        "create",
        Side("crud", {"m": 32}),
        Side("crud", {"m": 16}),
        note=_BUILDS,
    ),
    Claim(
        "A larger ef_construction makes a build longer",
        "create",
        Side("crud", {"ef_construction": 256}),
        Side("crud", {"ef_construction": 64}),
        note=_BUILDS,
    ),
    Claim(
        "SQLite finds slower than memory",
        "find_by_vector",
        Side("crud", stores=("SQLite",)),
        Side("crud", stores=("In-Memory",)),
    ),
    Claim(
        "SQLite deletes slower than memory",
        "delete",
        Side("crud", stores=("SQLite",)),
        Side("crud", stores=("In-Memory",)),
    ),
)
