"""Text in Weaviate: how a property is indexed by its words, and hybrid searches.

The facts below hold for server 1.35.2 and weaviate-client 4.23.1: they were read in the sources and
tested.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial.model.capabilities import Hybrid
from vectrial.model.fusion import Blend, Fusion

HYBRID = Hybrid(
    fusions={
        Fusion.RELATIVE_SCORE: "relativeScoreFusion, by the server; each side brings as many rows"
        " as the limit of the search, which is `candidates`, and the k best are kept here",
        Fusion.RECIPROCAL_RANK: "rankedFusion, by the server; `candidates` as above",
    },
    text="tokenization word (runs of letters and digits, in lower case), no stop words; BM25 with"
    " k1 = 1.2, b = 0.75",
)


def text_property() -> dict[str, Any]:
    """Data type and index of a text column, indexed by its words only."""
    from weaviate.classes.config import DataType, Tokenization

    return {
        "data_type": DataType.TEXT,
        "tokenization": Tokenization.WORD,
        "index_searchable": True,
        "index_filterable": False,
    }


def build_query(
    query: Any, column: str, k: int, blend: Blend
) -> Callable[[NDArray[np.float32], str], list[Any]]:
    """A search, through a collection's `query`, for the k best objects with their scores."""
    from weaviate.classes.query import HybridFusion, MetadataQuery

    fusions = {
        Fusion.RELATIVE_SCORE: HybridFusion.RELATIVE_SCORE,
        Fusion.RECIPROCAL_RANK: HybridFusion.RANKED,
    }
    search, kind = query.hybrid, fusions[blend.fusion]
    scored = MetadataQuery(score=True)
    # The text search that is behind USE_INVERTED_SEARCHABLE=false loses rows under small limits.
    rows = k if blend.alpha == 1.0 else max(k, blend.candidates)

    def run(vector: NDArray[np.float32], text: str) -> list[Any]:
        found: list[Any] = search(
            text,
            alpha=blend.alpha,
            vector=vector.tolist(),
            query_properties=[column],
            fusion_type=kind,
            limit=rows,
            return_metadata=scored,
            return_properties=False,
        ).objects
        return found[:k]

    return run
