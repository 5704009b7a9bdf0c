"""Scores, durability, build parameters and authorization of Elasticsearch and OpenSearch."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Bound

from vectrial.model.capabilities import Durability, Spreading
from vectrial.model.errors import StoreError, UserError
from vectrial.model.metric import Metric, ScoreKind
from vectrial.model.store import Address

SCORES: Mapping[Metric, ScoreKind] = {
    Metric.L2: ScoreKind.L2_SQUARED,
    Metric.COSINE: ScoreKind.COSINE_SIMILARITY,
    Metric.IP: ScoreKind.INNER_PRODUCT,
}
#: An example of a condition of an application, a query.
CONDITION = '{"term": {"on_sale": true}}'
#: Error of such a score near 0: the server's own is a float32 near 1.
SCORE_ERROR = 4 * 2.0**-24
DURABILITY: Mapping[Durability, str] = {
    Durability.SYNCED: "index.translog.durability=request: the log is forced to the disk before"
    " a write is acknowledged",
    Durability.BUFFERED: "index.translog.durability=async: the log is forced to the disk every 5 s",
}


class SegmentParams(Spreading):
    """segments: most segments of each shard after `build`, which merges them. Each segment has its
    own graph, so 1 gives a single final graph. None merges nothing. shards,
    replication_factor: see `Spreading`."""

    segments: int | None = Bound(default=1, ge=1, le=1000)


class LuceneHnswBuild(SegmentParams):
    """m, ef_construction: parameters of each segment's graph (the lowest layer has up to 2m links).
    segments: see `SegmentParams`."""

    m: int = Bound(default=16, ge=2, le=512)
    ef_construction: int = Bound(default=100, ge=2, le=3200)


def to_declared_scores(scores: NDArray[np.floating[Any]], metric: Metric) -> NDArray[np.float32]:
    """A server's scores (k,), which are never negative and larger if closer, converted to what
    `SCORES` declares. By both servers' references they are 1 / (1 + d²), (1 + cos) / 2, and for an
    inner product p 1 + p, or 1 / (1 - p) if p is negative."""
    scores = scores.astype(np.float64)
    match metric:
        case Metric.L2:
            declared = 1.0 / scores - 1.0
        case Metric.COSINE:
            declared = 2.0 * scores - 1.0
        case Metric.IP:
            declared = np.where(scores < 1.0, 1.0 - 1.0 / scores, scores - 1.0)
    return declared.astype(np.float32)


def parse_condition(text: str) -> dict[str, Any] | None:
    """The query for an application's condition, given as JSON in the form that its searches send;
    None for an empty text.

    Raises:
        UserError: the text is not such a query.
    """
    if not text:
        return None
    try:
        query = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(
            f"the condition is no JSON: {error}", where="--where", remedy=f"as in {CONDITION}"
        ) from error
    if not isinstance(query, dict):
        raise UserError("the condition is no query", where="--where", remedy=f"as in {CONDITION}")
    return query


def authorization(address: Address) -> str | None:
    """The authorization header, from an API key or else a user and password; None without either.

    Raises:
        StoreError: there is a user without a password, or the other way round.
    """
    secrets = address.secrets
    if key := secrets.get("api_key"):
        return f"ApiKey {key}"
    user, password = secrets.get("user"), secrets.get("password")
    if user is None and password is None:
        return None
    if user is None or password is None:
        raise StoreError("a user and a password are given together, or neither")
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
