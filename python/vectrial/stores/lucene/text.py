"""Full-text indexes and hybrid searches in Elasticsearch and OpenSearch.

Both servers add the scores of a search by vector and of a search by text in one request, each with
a boost. They also have fusions by rank or by scaled scores, which are not used: Elasticsearch's
`retriever`s need more than its basic licence, and the plugin of OpenSearch's search pipelines is
missing from the server used here.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from vectrial.model.capabilities import Hybrid
from vectrial.model.fusion import Blend, Fusion

_WORDS = (
    "analyzer standard (Unicode word boundaries, lower case), no stop words; BM25 with k1 = 1.2,"
    " b = 0.75"
)
_SUM = (
    "α × the vector's score (of cosine (1 + cos) / 2) + (1 - α) × BM25, added by the server in one"
    " request; of the vectors the `candidates` nearest take part, of the texts every row that has a"
    " word"
)
ELASTICSEARCH = Hybrid(
    fusions=MappingProxyType({Fusion.WEIGHTED_SUM: f"`knn` beside `match`: {_SUM}"}),
    text=_WORDS,
    whole_text=True,
)
OPENSEARCH = Hybrid(
    fusions=MappingProxyType(
        {
            Fusion.WEIGHTED_SUM: f"`knn` and `match` in a `bool`: {_SUM}; with the index flat every"
            " vector takes part"
        }
    ),
    text=f"{_WORDS}, whose constant factor k1 + 1 it leaves out and a boost puts back",
    whole_text=True,
)
#: The part of a column's field that holds its words.
_PART = "words"


def text_field() -> dict[str, Any]:
    """Mapping of a text column: indexed unchanged, and by its words."""
    words = {"type": "text", "analyzer": "standard"}
    return {"type": "keyword", "index": False, "fields": {_PART: words}}


def build_query(
    knn_body: Callable[[list[float]], dict[str, Any]], column: str, blend: Blend, boost: float
) -> Callable[[list[float], str], dict[str, Any]]:
    """The body of a search by vector and text.

    knn_body: members that find the neighbours of a vector. boost: factor for the BM25 score.
    """
    field, alpha = f"{column}.{_PART}", blend.alpha

    def body(vector: list[float], text: str) -> dict[str, Any]:
        weight = boost if alpha == 0.0 else (1 - alpha) * boost
        words = {"match": {field: {"query": text, "boost": weight}}}
        if alpha == 0.0:
            return {"query": words}
        dense = knn_body(vector)
        if alpha == 1.0:
            return dense
        if "knn" in dense:
            return {"knn": {**dense["knn"], "boost": alpha}, "query": words}
        weighted = {"bool": {"must": [dense["query"]], "boost": alpha}}
        return {"query": {"bool": {"should": [weighted, words]}}}

    return body
