"""A small Arrow Flight store that speaks Longbow's protocol: a reference for the transport.

    python -m vectrial_reproduce.stores.flight.reference.server --port 3000 --folder DIR

It puts the embedded stores of this package (hnswlib for `hnsw`, FAISS for `flat`) behind Flight, so
that what the transport costs can be measured on any machine, and the driver be tested. It is no
competitor of anybody: one Python process, whose interpreter lock every request takes.

As Longbow has it:

- DoPut to the path `[dataset]`: columns `id`, `vector` (or `embedding`) and metadata, the metric as
  `longbow.metric` in the schema's metadata. The first put makes the dataset.
- DoGet of `{"name" or "dataset": …, "filters": …}`, or of a bare name: the rows that filters keep.
- DoGet of `{"search": {"dataset", "vector", "k", "filters", "include_vectors"}}`: columns `id`
  (uint64), `score` and `vector` (binary). With `text_query` and `alpha` (1: the vector alone; 0, as
  when left out: the text alone) both rankings are fused by reciprocal ranks.
- Actions with bodies in JSON: `VectorSearch`, `VectorSearchByID`, `check_readiness`, `delete`,
  `delete-dataset`. ListFlights and GetFlightInfo by path.

Ours beside that:

- A put replaces rows whose ids are known, and one without rows makes an empty dataset;
  `vectrial.index` and `vectrial.params` in the schema's metadata, and `vectrial.text`: the names of
  columns of strings that get a full-text index, as a JSON list.
- `limit` and `columns` of a DoGet; the column `id` can be filtered by `==` or `in`, alone.
- Members of a search that Longbow does not know; in a ticket they may stand beside it instead, as
  `vectrial`, where Longbow passes over them.
- `ef` of a search, and `include_metadata`: a struct column `metadata`. Of one by text: between 0
  and 1 α weighs the rankings, which Longbow takes alike; `text_field` where several columns have an
  index; `candidates`, the rows of each ranking (2 k, as there). Filters, which Longbow ignores
  then, are refused.
- Several `ids` in a `delete`; the actions `flush` (write to the disk) and `server-info`.
- GetFlightInfo's `total_records` counts rows.

Scores are 1 / (1 + distance) under L2 as Longbow's, cosine similarity and inner product under the
other metrics, which Longbow takes for L2. Filters: `vectrial_reproduce.stores.flight.filters`.
What was not flushed is gone with the process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight

from vectrial.model.errors import VectrialError
from vectrial.util.arrow import load_without_pandas
from vectrial_reproduce.stores.flight.reference.datasets import Datasets, ServedDataset
from vectrial_reproduce.stores.flight.reference.text import TextQuery

SERVER = "vectrial flight reference"
#: Rows of one batch of a scan.
_PAGE = 4_096


class Reference(flight.FlightServerBase):
    """The service, over the datasets that stand in `folder`."""

    def __init__(self, location: str, folder: Path) -> None:
        super().__init__(location)
        self._where = location
        self._datasets = Datasets(folder)

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        with _flight_errors():
            name = _path(descriptor)
            dataset = self._datasets.get_or_create(name, reader.schema)
            for chunk in reader:
                if chunk.data is not None and chunk.data.num_rows:
                    dataset.put(chunk.data)

    def do_get(self, context: Any, ticket: Any) -> flight.FlightDataStream:
        with _flight_errors():
            members = _ticket(ticket.ticket)
            if "search" in members:
                search = {**members["search"], **members.get("vectrial", {})}
                found = self._search(search, _vector(search))
                return flight.RecordBatchStream(pa.Table.from_batches([found]))
            dataset = self._datasets.get(str(members.get("name") or members.get("dataset")))
            schema, batches = dataset.scan(
                members.get("filters") or [], members.get("limit"), members.get("columns"), _PAGE
            )
            return flight.GeneratorStream(schema, batches)

    def _search(self, members: Mapping[str, Any], vector: list[float]) -> pa.RecordBatch:
        dataset, k = self._datasets.get(str(members["dataset"])), int(members.get("k", 10))
        return dataset.search(
            np.array(vector, np.float32),
            k,
            members.get("ef"),
            members.get("filters") or [],
            text_query=TextQuery.parse(members, k),
            include_vectors=bool(members.get("include_vectors")),
            include_metadata=bool(members.get("include_metadata")),
        )

    def list_flights(self, context: Any, criteria: Any) -> Iterator[flight.FlightInfo]:
        for name in self._datasets.names():
            yield self._info(name, self._datasets.get(name))

    def get_flight_info(self, context: Any, descriptor: Any) -> flight.FlightInfo:
        with _flight_errors():
            name = _path(descriptor)
            return self._info(name, self._datasets.get(name))

    def _info(self, name: str, dataset: ServedDataset) -> flight.FlightInfo:
        endpoint = flight.FlightEndpoint(json.dumps({"name": name}).encode(), [self._where])
        descriptor = flight.FlightDescriptor.for_path(name)
        return flight.FlightInfo(dataset.schema, descriptor, [endpoint], dataset.count(), -1)

    def list_actions(self, context: Any) -> Any:
        return [
            ("check_readiness", '{"dataset"}: whether its index holds every row'),
            ("delete", '{"dataset", "id" or "ids"}'),
            ("delete-dataset", '{"dataset"}'),
            ("VectorSearch", '{"dataset", "vector" or "vectors", "k", "ef", "filters"}'),
            ("VectorSearchByID", '{"dataset", "id", "k"}'),
            ("flush", '{"dataset"}: write it to the disk'),
            ("server-info", "name and versions"),
        ]

    def do_action(self, context: Any, action: Any) -> Iterator[bytes]:
        with _flight_errors():
            body = action.body.to_pybytes()
            members = json.loads(body) if body else {}
            yield from self._act(action.type, members)

    def _act(self, name: str, members: Mapping[str, Any]) -> Iterator[bytes]:
        match name:
            case "check_readiness":
                yield _json(self._readiness(str(members["dataset"])))
            case "delete":
                ids = members["ids"] if "ids" in members else [members["id"]]
                dataset = self._datasets.get(str(members["dataset"]))
                dataset.delete(np.array([int(id_) for id_ in ids], np.int64))
                yield b"deleted"
            case "delete-dataset":
                self._datasets.drop(str(members["dataset"]))
                yield b"deleted"
            case "VectorSearch":
                vectors = members["vectors"] if "vectors" in members else [_vector(members)]
                for vector in vectors:
                    yield _stream(self._search(members, vector))
            case "VectorSearchByID":
                yield _json(self._search_by_id(members))
            case "flush":
                self._datasets.get(str(members["dataset"])).flush()
                yield b"flushed"
            case "server-info":
                yield _json({"server": SERVER, "versions": self._datasets.versions()})
            case _:
                raise NotImplementedError(f"no action '{name}'")

    def _readiness(self, name: str) -> Mapping[str, Any]:
        if name not in self._datasets.names():
            return {"status": "NOT_FOUND", "reason": f"no dataset '{name}'", "index_len": 0}
        dataset = self._datasets.get(name)
        dataset.ready()
        reason = "vectors are indexed when they are put, texts by now"
        return {"status": "READY", "reason": reason, "index_len": dataset.count()}

    def _search_by_id(self, members: Mapping[str, Any]) -> Mapping[str, Any]:
        dataset = self._datasets.get(str(members["dataset"]))
        found = self._search(members, dataset.vector(int(members["id"])).tolist())
        ids = found.column("id").to_numpy().view(np.int64)
        return {"ids": ids.tolist(), "scores": found.column("score").to_pylist()}


@contextlib.contextmanager
def _flight_errors() -> Iterator[None]:
    """Raise errors as Flight errors."""
    try:
        yield
    except KeyError as error:
        raise flight.FlightServerError(f"the request lacks {error}") from error
    except (VectrialError, TypeError, ValueError, AttributeError) as error:
        raise flight.FlightServerError(str(error)) from error


def _vector(members: Mapping[str, Any]) -> list[float]:
    """The vector of a search; a search with a text may have none."""
    vector: list[float] = (
        members.get("vector", []) if members.get("text_query") else members["vector"]
    )
    return vector


def _path(descriptor: Any) -> str:
    if not descriptor.path:
        raise flight.FlightServerError("the descriptor is no path")
    return str(descriptor.path[0].decode())


def _ticket(ticket: bytes) -> dict[str, Any]:
    """The members of a ticket, which is JSON or a bare name."""
    text = ticket.decode()
    if not text.lstrip().startswith("{"):
        return {"name": text}
    members: dict[str, Any] = json.loads(text)
    return members


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode()


def _stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def main() -> None:
    """Serve until the process ends."""
    parser = argparse.ArgumentParser(
        prog="python -m vectrial_reproduce.stores.flight.reference.server",
        description="A small Arrow Flight store that speaks Longbow's protocol.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=3000, help="port to listen on; 0: a free one")
    parser.add_argument("--folder", type=Path, required=True, help="where datasets are kept")
    members = parser.parse_args()
    load_without_pandas()
    server = Reference(f"grpc://{members.host}:{members.port}", members.folder)
    print(f"{SERVER} on {members.host}:{server.port}", flush=True)
    server.serve()


if __name__ == "__main__":
    main()
