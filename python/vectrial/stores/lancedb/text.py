"""The words of a text in LanceDB: its full-text index, and its own fusions.

The facts below hold for lancedb 0.40.0: they were read in its source and tested.
"""

from __future__ import annotations

from typing import Any

from vectrial.model.capabilities import Hybrid
from vectrial.model.fusion import Blend, Fusion

LANCEDB_HYBRID = Hybrid(
    fusions={
        Fusion.RELATIVE_SCORE: "LinearCombinationReranker over scores that the query has scaled to"
        ' [0, 1] within each side (rerank\'s normalize="score"), in Python; each side brings'
        " `candidates` rows",
    },
    text="full-text index, tokenizer simple, lower case, no stemming, no stop words, words of up to"
    " 40 letters; BM25 with k1 = 1.2, b = 0.75",
)


def text_index() -> Any:
    """Full-text index of a column, whose words are indexed unchanged."""
    from lancedb.index import FTS

    return FTS(base_tokenizer="simple", stem=False, remove_stop_words=False, ascii_folding=False)


def reranker(blend: Blend) -> Any:
    """The fusion of both sides; None if there is only one side."""
    if blend.alpha in (0.0, 1.0):
        return None
    from lancedb.rerankers import LinearCombinationReranker

    # A row that one side lacks gets 1 - fill = 0 from it.
    return LinearCombinationReranker(weight=blend.alpha, fill=1.0)
