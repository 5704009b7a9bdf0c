"""Settings of a dataset of the Flight reference server, from its first put or its file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from vectrial.model.errors import StoreError
from vectrial.model.metric import Metric
from vectrial.model.schema import ARROW_TYPES, Field, FieldType, Schema
from vectrial.model.store import Store
from vectrial.stores.faiss import FaissStore
from vectrial.stores.hnswlib import HnswlibStore

#: The store that serves each kind of index, and that store's name for the kind.
ENGINES: Mapping[str, type[Store]] = {"hnsw": HnswlibStore, "flat": FaissStore}
#: Metrics as Longbow names them in a schema's metadata.
METRICS = {"euclidean": Metric.L2, "cosine": Metric.COSINE, "dot_product": Metric.IP}


@dataclass(frozen=True)
class DatasetDescription:
    """The schema, kind of index and build parameters of a dataset."""

    schema: Schema
    index: str
    params: Mapping[str, Any]

    def text(self) -> str:
        """The JSON text of the dataset's file."""
        fields = [[field.name, field.type] for field in self.schema.fields]
        return json.dumps(
            {
                "dim": self.schema.dim,
                "metric": self.schema.metric,
                "fields": fields,
                "text": [field.name for field in self.schema.fields if field.text],
                "index": self.index,
                "params": dict(self.params),
            }
        )

    @staticmethod
    def from_text(text: str) -> DatasetDescription:
        """The description read from the file's JSON text."""
        saved = json.loads(text)
        fields = [Field(name, FieldType(kind)) for name, kind in saved["fields"]]
        texts = _with_text(fields, saved.get("text", []))
        schema = Schema(saved["dim"], Metric(saved["metric"]), texts)
        return DatasetDescription(schema, saved["index"], saved["params"])

    @staticmethod
    def from_put(arrow: pa.Schema) -> DatasetDescription:
        """The description that the schema of the first put asks for.

        Raises:
            StoreError: an unknown column or setting.
        """
        dim, fields = 0, []
        for column in arrow:
            if column.name in ("vector", "embedding"):
                dim = column.type.list_size if pa.types.is_fixed_size_list(column.type) else 0
            elif column.name != "id":
                fields.append(Field(column.name, _field_type(column)))
        if not dim or "id" not in arrow.names:
            raise StoreError("a put has columns 'id' and 'vector', a fixed-size list of float32")
        settings = {key.decode(): text.decode() for key, text in (arrow.metadata or {}).items()}
        metric = METRICS.get(settings.get("longbow.metric", "euclidean"))
        index = settings.get("vectrial.index", "hnsw")
        if metric is None or index not in ENGINES:
            raise StoreError(
                f"metrics are {', '.join(METRICS)}, and indexes {', '.join(ENGINES)}",
            )
        params = json.loads(settings.get("vectrial.params", "{}"))
        texts = _with_text(fields, json.loads(settings.get("vectrial.text", "[]")))
        return DatasetDescription(Schema(dim, metric, texts), index, params)


def _field_type(column: pa.Field[Any]) -> FieldType:
    for kind, arrow in ARROW_TYPES.items():
        if column.type.equals(arrow):
            return kind
    raise StoreError(f"column '{column.name}' is {column.type}: nothing that is kept here")


def _with_text(fields: Sequence[Field], texts: Sequence[str]) -> tuple[Field, ...]:
    """The fields, with a full-text index on those named in `texts`."""
    strings = {field.name for field in fields if field.type is FieldType.STRING}
    if more := set(texts) - strings:
        raise StoreError(f"there is no column of strings '{min(more)}' to index the words of")
    return tuple(replace(field, text=field.name in texts) for field in fields)
