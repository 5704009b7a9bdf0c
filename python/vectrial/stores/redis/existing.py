"""Indexes of Redis' query engine that somebody else made over hashes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from vectrial.model.errors import UserError
from vectrial.model.existing import SAMPLE, Description, Existing, are_integers, require_id
from vectrial.model.metric import Metric
from vectrial.model.schema import FieldType

_METRICS = {"L2": Metric.L2, "COSINE": Metric.COSINE, "IP": Metric.IP}


@dataclass(frozen=True)
class FoundIndex:
    """An index. prefix: of its keys. stored_vector: the field of a hash that has the vector."""

    description: Description
    prefix: str
    stored_vector: str


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
    if as_text(definition["key_type"]) != "HASH" or len(prefixes) != 1:
        raise UserError(
            f"index '{name}' is over {as_text(definition['key_type'])} with the prefixes"
            f" {', '.join(prefixes)}",
            remedy="indexes over hashes with one prefix are measured",
        )
    fields = [
        {name.lower(): value for name, value in _properties(one).items()}
        for one in info["attributes"]
    ]
    vector = _vector(fields, existing.vector, name)
    params = {
        ours: int(vector[theirs])
        for ours, theirs in (("m", "m"), ("ef_construction", "ef_construction"))
        if theirs in vector
    }
    keys = client.scan_iter(match=f"{prefixes[0]}*", count=SAMPLE)
    first = [as_text(key)[len(prefixes[0]) :] for key in islice(keys, SAMPLE)]
    attribute, kind = as_text(vector["attribute"]), as_text(vector["algorithm"]).lower()
    description = Description(
        id="key",
        vector=attribute,
        rows=int(info["num_docs"]),
        dim=int(vector["dim"]),
        metric=_METRICS[as_text(vector["distance_metric"])],
        index=kind,
        params=params if kind == "hnsw" else {},
        text_ids=not are_integers(first),
        fields=_filterable(fields),
    )
    return FoundIndex(description, prefixes[0], as_text(vector["identifier"]))


def index_info(client: Any, name: str) -> dict[str, Any]:
    """The properties of an index that `FT.INFO` tells."""
    return _properties(client.execute_command("FT.INFO", name))


def as_text(word: bytes | str) -> str:
    """A word of an answer."""
    return word.decode() if isinstance(word, bytes) else word


def _properties(told: Any) -> dict[str, Any]:
    """Names and values of an answer, in either protocol; words without a value are left out."""
    if isinstance(told, dict):
        return {as_text(key): value for key, value in told.items()}
    pairs = zip(told[::2], told[1::2], strict=False)
    return {as_text(key): value for key, value in pairs}


def _vector(fields: list[dict[str, Any]], wanted: str, name: str) -> dict[str, Any]:
    vectors = [
        one
        for one in fields
        if as_text(one["type"]) == "VECTOR" and wanted in ("", as_text(one["attribute"]))
    ]
    if len(vectors) != 1:
        raise UserError(
            f"index '{name}' has {len(vectors)} fields of vectors"
            + (f" called '{wanted}'" if wanted else ""),
            remedy="name it: --vector NAME",
        )
    (vector,) = vectors
    if as_text(vector["data_type"]) != "FLOAT32":
        raise UserError(f"its vectors are of the type {as_text(vector['data_type'])}, not FLOAT32")
    return vector


def _filterable(fields: list[dict[str, Any]]) -> Mapping[str, FieldType]:
    """Numbers with an index of missing values, which negations need. A tag may be one of several in
    a field, and is none of these."""
    return {
        as_text(one["attribute"]): FieldType.FLOAT
        for one in fields
        if as_text(one["type"]) == "NUMERIC"
        and "INDEXMISSING" in map(as_text, one.get("flags", ()))
        and as_text(one["attribute"]) == as_text(one["identifier"])
    }
