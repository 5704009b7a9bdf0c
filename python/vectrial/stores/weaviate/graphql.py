"""Searches through Weaviate's GraphQL, over HTTP, as its clients sent them before gRPC."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from vectrial.stores import common as vt

_ID_BITS = (1 << 64) - 1


def searcher(
    client: Any, collection: str, vector_name: str, request: vt.SearchRequest, level: str | None
) -> vt.Searcher:
    """A search through the official client's GraphQL method. Each call writes the query's text
    anew, with the vector as JSON: that is part of this protocol's cost.

    Args:
        client: a `weaviate.WeaviateClient`. level: of consistency; None leaves it to the server.

    Raises:
        Unsupported: the search has a filter, or returns more than ids and distances.
    """
    if request.where is not None or request.returning is not vt.Returning.IDS:
        raise vt.Unsupported("weaviate: over GraphQL only plain searches that return ids are asked")
    name = collection[:1].upper() + collection[1:]  # as the server does with names of classes
    consistency = "" if level is None else f"consistencyLevel: {level.upper()}, "
    before = f"{{Get {{{name}(limit: {request.k}, {consistency}nearVector: {{vector: "
    after = f', targetVectors: ["{vector_name}"]}}) {{_additional {{id distance}}}}}}}}'

    def run(vector: NDArray[np.float32], /) -> vt.Hits:
        answer = client.graphql_raw_query(f"{before}{json.dumps(vector.tolist())}{after}")
        if answer.errors:
            raise vt.StoreError(str(answer.errors[0]["message"]))
        found = [row["_additional"] for row in answer.get[name]]
        ids = np.array([UUID(row["id"]).int & _ID_BITS for row in found], dtype=np.uint64)
        scores = np.array([row["distance"] for row in found], dtype=np.float32)
        return ids.view(np.int64), scores

    return run
