"""Full-text search over Arrow Flight: the indexed columns, and hybrid searches in Longbow's form.

The facts about Longbow were read in its source, at commit 987003c. A client cannot choose the
indexed columns: the server is started with LONGBOW_HYBRID_SEARCH_ENABLED and
LONGBOW_HYBRID_TEXT_COLUMNS, for all columns together. It refuses a search with an unknown member,
but ignores unknown members beside the search, which is where ours are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from vectrial.model.capabilities import Hybrid
from vectrial.model.fusion import Blend, Fusion
from vectrial.model.schema import Schema

HYBRID = Hybrid(
    fusions=MappingProxyType(
        {
            Fusion.RECIPROCAL_RANK: "by the reference server; each side brings `candidates` rows."
            " Longbow weighs both alike at any α between 0 and 1 (which at 0.5 is the same order),"
            " and takes 2 k rows of each",
        }
    ),
    text="Tantivy, tokenizer simple (runs of letters and digits), lower case, no stop words; BM25"
    " with k1 = 1.2, b = 0.75",
)


def columns(schema: Schema, names: Mapping[str, str]) -> str:
    """The columns whose words are indexed, in the form of the schema's metadata.

    names: fields → columns on the wire.
    """
    return json.dumps([names[field.name] for field in schema.fields if field.text])


def build_query(
    search: dict[str, Any], blend: Blend, column: str
) -> Callable[[list[float], str], dict[str, Any]]:
    """The ticket of a search by vector and text, or by text alone without a vector.

    search: members that depend on neither. column: the text column on the wire.
    """
    ours = {"text_field": column, "candidates": blend.candidates}

    def ticket(vector: list[float], text: str) -> dict[str, Any]:
        members = {**search, "alpha": blend.alpha, "text_query": text}
        if blend.alpha > 0:
            members["vector"] = vector
        return {"search": members, "vectrial": ours}

    return ticket
