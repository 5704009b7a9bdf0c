"""Indexes of Redis' query engine that somebody else made over hashes or JSON documents.

Their rows are the documents of the index. Other keys under its prefix may not be hashes, or a
filter of the index may leave them out. A document without a vector is in no answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vectrial.model.errors import StoreError, UserError
from vectrial.model.existing import SAMPLE, Description, Existing, are_integers, require_id
from vectrial.model.metric import Metric
from vectrial.model.schema import FieldType

#: A path in a document at which there is at most one value.
_ONE_VALUE = re.compile(r"\$(\.\w+)+")
_METRICS = {"L2": Metric.L2, "COSINE": Metric.COSINE, "IP": Metric.IP}


@dataclass(frozen=True)
class FoundIndex:
    """An index. prefix: prefix of its keys. stored_vector: the field of a hash that has the vector,
    or the path to it in a document. documents: it is over these, and not over hashes."""

    description: Description
    prefix: str
    stored_vector: str
    documents: bool


def describe(client: Any, existing: Existing) -> FoundIndex:
    """See `Store.describe`."""
    import redis

    name = existing.collection
    try:
        info = index_info(client, name)
    except redis.ResponseError as error:
        if not any(word in str(error).lower() for word in ("no such index", "unknown index")):
            raise
        raise UserError(f"the server has no index '{name}'", where="--collection") from error
    require_id(existing, "key", "their keys")
    definition = _properties(info["index_definition"])
    prefixes = [as_text(prefix) for prefix in definition["prefixes"]]
    documents = as_text(definition["key_type"]) == "JSON"
    prefix = prefixes[0] if len(prefixes) == 1 else ""  # of several, ids are whole keys
    fields = [
        {name.lower(): value for name, value in _properties(one).items()}
        for one in info["attributes"]
    ]
    vector = _vector(fields, existing.vector, name)
    stored = as_text(vector["identifier"])
    if documents and not _ONE_VALUE.fullmatch(stored):
        raise UserError(
            f"vectors are at {stored} in a document, where there may be several",
            remedy="vectors at a path of names, such as $.embedding, are measured",
        )
    params = {
        ours: int(vector[theirs])
        for ours, theirs in (("m", "m"), ("ef_construction", "ef_construction"))
        if theirs in vector
    }
    attribute, kind = as_text(vector["attribute"]), as_text(vector["algorithm"]).lower()
    if kind not in ("hnsw", "flat"):
        raise UserError(
            f"the index of '{attribute}' is {kind}", remedy="hnsw and flat are measured"
        )
    text = combine_queries(existing.where)
    try:
        first = [key[len(prefix) :] for key in matching_keys(client, name, text, attribute, SAMPLE)]
    except redis.ResponseError as error:
        if not existing.where:
            raise
        raise UserError(f"the server refuses the condition: {error}", where="--where") from error
    description = Description(
        id="key",
        vector=attribute,
        rows=count(client, name, text, attribute),
        dim=int(vector["dim"]),
        metric=_METRICS[as_text(vector["distance_metric"])],
        index=kind,
        params=params if kind == "hnsw" else {},
        text_ids=not are_integers(first),
        fields=_filterable(fields, documents=documents),
        notes=tuple(_notes(fields, int(info["num_docs"]), definition, existing.where)),
    )
    return FoundIndex(description, prefix, stored, documents)


def _notes(
    fields: list[dict[str, Any]], documents: int, definition: dict[str, Any], where: str
) -> Iterator[str]:
    yield f"the index has {documents:,} documents: those with a vector are its rows"
    if where:
        yield f"searches have the condition {where}, and the rows are those that it keeps"
    if condition := definition.get("filter"):
        yield f"it follows the hashes with {as_text(condition)}"
    tags = [as_text(one["attribute"]) for one in fields if as_text(one["type"]) == "TAG"]
    if tags:
        yield (
            f"no filters on {', '.join(tags)}: a tag may be one of several of a field, and is"
            " trimmed"
        )


def combine_queries(where: str, further: str = "") -> str:
    """The query for the documents that match both the application's condition and a further one. An
    empty text is no condition."""
    both = [f"({one})" for one in (where, further) if one]
    return f"({' '.join(both)})" if both else "*"


def count(client: Any, name: str, text: str, vector: str) -> int:
    """Number of documents in an index that match a query and have a vector."""
    reduced = ("GROUPBY", 0, "REDUCE", "COUNT", 0, "AS", "n")
    rows = _aggregate_with_vector(client, name, text, vector, *reduced)
    return int(rows[0]["n"]) if rows else 0


def matching_keys(client: Any, name: str, text: str, vector: str, limit: int) -> list[str]:
    """Keys of at most `limit` documents in an index that match a query and have a vector."""
    wanted = ("LOAD", 1, "@__key", "LIMIT", 0, limit)
    return [
        as_text(row["__key"]) for row in _aggregate_with_vector(client, name, text, vector, *wanted)
    ]


def _aggregate_with_vector(
    client: Any, name: str, text: str, vector: str, *steps: Any
) -> list[dict[str, Any]]:
    """Result of running `steps` on the documents that match a query and have a vector."""
    field = f"@{vector}"
    # Of a document it may be null, which exists, and is no text.
    with_one = f'exists({field}) && {field} > ""'
    having = ("LOAD", 1, field, "FILTER", with_one, *steps)
    asked = ("FT.AGGREGATE", name, text, *having, "TIMEOUT", 0, "DIALECT", 2)
    found = _properties(client.execute_command(*asked))
    return [_properties(row["extra_attributes"]) for row in map(_properties, found["results"])]


def keys(client: Any, name: str, text: str) -> Iterator[list[str]]:
    """Keys of the documents of an index that match a query, page by page."""
    asked = ("LOAD", 1, "@__key", "TIMEOUT", 0, "WITHCURSOR", "COUNT", SAMPLE, "DIALECT", 2)
    page, cursor = client.execute_command("FT.AGGREGATE", name, text, *asked)
    try:
        while True:
            rows = [_properties(row)["extra_attributes"] for row in _properties(page)["results"]]
            yield [as_text(_properties(row)["__key"]) for row in rows]
            if not cursor:
                return
            page, cursor = client.execute_command("FT.CURSOR", "READ", name, cursor)
    finally:
        if cursor:
            client.execute_command("FT.CURSOR", "DEL", name, cursor)


def index_info(client: Any, name: str) -> dict[str, Any]:
    """The properties of an index, from `FT.INFO`."""
    return _properties(client.execute_command("FT.INFO", name))


def as_text(word: bytes | str) -> str:
    """A word of a reply, as text."""
    return word.decode() if isinstance(word, bytes) else word


def _properties(reply: Any) -> dict[str, Any]:
    """Names and values in a reply, in either protocol; words without a value are left out."""
    if isinstance(reply, dict):
        return {as_text(key): value for key, value in reply.items()}
    pairs = zip(reply[::2], reply[1::2], strict=False)
    return {as_text(key): value for key, value in pairs}


def _vector(fields: list[dict[str, Any]], requested_name: str, name: str) -> dict[str, Any]:
    vectors = [
        one
        for one in fields
        if as_text(one["type"]) == "VECTOR" and requested_name in ("", as_text(one["attribute"]))
    ]
    if len(vectors) != 1:
        raise UserError(
            f"index '{name}' has {len(vectors)} fields of vectors"
            + (f" called '{requested_name}'" if requested_name else ""),
            remedy="name it: --vector NAME",
        )
    (vector,) = vectors
    if as_text(vector["data_type"]) != "FLOAT32":
        raise UserError(f"its vectors are of the type {as_text(vector['data_type'])}, not FLOAT32")
    return vector


def read_documents(
    client: Any, keys: Sequence[str], paths: Sequence[str]
) -> list[dict[str, Any] | None]:
    """Values of JSON documents at these paths, as far as they exist; None if the document is
    missing.

    Raises:
        StoreError: a path has several values.
    """
    with client.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.execute_command("JSON.GET", key, *paths)
        answers = pipe.execute()
    return [None if answer is None else _values_at(paths, answer) for answer in answers]


def _values_at(paths: Sequence[str], answer: bytes) -> dict[str, Any]:
    found = json.loads(answer)
    values = found if len(paths) > 1 else {paths[0]: found}
    if several := [path for path, here in values.items() if len(here) > 1]:
        raise StoreError(f"a document has several values at {several[0]}")
    return {path: here[0] for path, here in values.items() if here and here[0] is not None}


def _filterable(fields: list[dict[str, Any]], *, documents: bool) -> Mapping[str, FieldType]:
    """Number fields with an index of missing values, which negations need. Tags are excluded,
    because a field may hold several."""
    before = "$." if documents else ""
    return {
        as_text(one["attribute"]): FieldType.FLOAT
        for one in fields
        if as_text(one["type"]) == "NUMERIC"
        and "INDEXMISSING" in map(as_text, one.get("flags", ()))
        and before + as_text(one["attribute"]) == as_text(one["identifier"])
    }
