"""Elasticsearch over HTTP: against the null server, a recording one, and a real one where given."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
from engine_runs import judge_of
from load_outcomes import errors, only

from vectrial.engine.client import Requests, arrivals, closed, drive, target
from vectrial.engine.null_server import null_server
from vectrial.engine.types import LoadOutcome, LoadRecord
from vectrial.model.errors import UserError

K, QUERIES, DIM, COUNT = 10, 40, 16, 300
RANDOM = np.random.default_rng(3)
VECTORS = RANDOM.standard_normal((QUERIES, DIM)).astype(np.float32)
IN = {"collection": "things"}


def test_an_open_loop_has_more_than_one_request_in_flight_without_being_told() -> None:
    """Every answer takes 100 ms: one connection would carry 10 a second. There are fewer arrivals
    than connections, so that a pause of the machine's cannot use them up."""
    with null_server("http", k=K, faults=[("late", 1)], late_s=0.1) as slow:
        outcome = drive(
            target("elasticsearch", slow.host, slow.port),
            [Requests("search", vectors=VECTORS, k=K, options=IN)],
            [arrivals(100, kind="constant")],
            duration_s=0.6,
        )
    record = only(outcome)
    assert (record["issued"], outcome["unsent"], outcome["in_flight_limit_hits"]) == (60, 0, 0)
    assert 4 <= outcome["peak_in_flight"] <= 60
    assert outcome["reconnects"] == 0, "all were open before the clock started"


def test_a_source_has_no_more_connections_than_requests_may_be_in_flight() -> None:
    with null_server("http", k=K, faults=[("late", 1)], late_s=0.02) as slow:
        outcome = drive(
            target("elasticsearch", slow.host, slow.port),
            [Requests("search", vectors=VECTORS, k=K, options=IN)],
            [arrivals(500, kind="constant", in_flight=3)],
            duration_s=1,
        )
    assert (only(outcome)["issued"] + outcome["unsent"], outcome["peak_in_flight"]) == (500, 3)
    assert outcome["in_flight_limit_hits"] > 0


@dataclass
class Peer:
    """A server that notes what it is asked, and answers in the way it is told."""

    port: int = 0
    seen: list[tuple[str, dict[str, str], str]] = field(default_factory=list)
    status: int = 200
    body: bytes = b"{}"
    chunks: bool = False
    close: bool = False


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            names = {name.lower(): value for name, value in self.headers.items()}
            peer.seen.append((self.path, names, body))
            self.send_response(peer.status)
            if peer.chunks:
                self.send_header("transfer-encoding", "chunked")
            else:
                self.send_header("content-length", str(len(peer.body)))
            if peer.close:
                self.send_header("connection", "close")
            self.end_headers()
            if not peer.chunks:
                self.wfile.write(peer.body)
                return
            for at in range(0, len(peer.body), 7):
                piece = peer.body[at : at + 7]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    peer.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield peer
    server.shutdown()
    server.server_close()


def send(
    peer: Peer,
    request: Requests,
    options: dict[str, str] | None = None,
    headers: list[tuple[str, str]] | None = None,
) -> tuple[LoadOutcome, LoadRecord]:
    to = target(
        "elasticsearch", "127.0.0.1", peer.port, options=options or {}, headers=headers or []
    )
    outcome = drive(to, [request], [closed(1, count=3)])
    return outcome, only(outcome)


HITS = json.dumps(
    {"timed_out": False, "hits": {"hits": [{"_id": str(i), "_score": 1 / (i + 1)} for i in (4, 9)]}}
).encode()


@pytest.mark.parametrize("chunks", [False, True])
@pytest.mark.parametrize("close", [False, True])
def test_answers_in_chunks_and_connections_that_end(peer: Peer, chunks: bool, close: bool) -> None:
    """A server that says it closes is no error: the next request goes over a new connection."""
    peer.body, peer.chunks, peer.close = HITS, chunks, close
    search = Requests(
        "search", vectors=VECTORS[:1], k=2, judge=judge_of(np.array([[4, 9]])), options=IN
    )
    outcome, record = send(peer, search)
    assert errors(record) == {}
    assert record["recorder"].summary()["recall_mean"] == 1
    assert outcome["reconnects"] == (2 if close else 0)


def test_a_search_says_what_it_should(peer: Peer) -> None:
    peer.body = HITS
    options = {**IN, "vector": "v", "num_candidates": "77", "oversample": "1.5"}
    options["query"] = "preference=_local"
    search = Requests(
        "search", vectors=VECTORS[:1], k=2, filters=[b'{"term":{"c":1}}'], options=options
    )
    send(peer, search, headers=[("Authorization", "ApiKey abc")])
    path, headers, body = peer.seen[0]
    assert path == "/things/_search?preference=_local"
    assert headers["authorization"] == "ApiKey abc"
    assert headers["content-type"] == "application/json"
    assert headers["host"] == f"127.0.0.1:{peer.port}"
    asked = json.loads(body)
    vector = asked["knn"].pop("query_vector")
    assert np.array_equal(np.array(vector, dtype=np.float32), VECTORS[0]), "not a bit is lost"
    assert asked == {
        "size": 2,
        "_source": False,
        "knn": {
            "field": "v",
            "k": 2,
            "num_candidates": 77,
            "rescore_vector": {"oversample": 1.5},
            "filter": {"term": {"c": 1}},
        },
    }


def test_opensearch_is_asked_in_its_own_words(peer: Peer) -> None:
    peer.body = b'{"hits":{"hits":[{"_score":1.0,"fields":{"c":["x"],"id":[4]}}]}}'
    options = {**IN, "ef": "50", "fields": "id,c"}
    search = Requests("s", vectors=VECTORS[:1], k=2, filters=[b'{"match_all":{}}'], options=options)
    _, record = send(peer, search, options={"flavor": "opensearch"})
    assert errors(record) == {}
    asked = json.loads(peer.seen[0][2])
    knn: dict[str, Any] = asked["query"]["knn"]["vector"]
    assert len(knn.pop("vector")) == DIM
    assert knn == {"k": 2, "method_parameters": {"ef_search": 50}, "filter": {"match_all": {}}}
    assert (asked["stored_fields"], asked["docvalue_fields"]) == ("_none_", ["id", "c"])

    peer.seen.clear()
    options = {**IN, "exact": "l2", "fields": "id", "source": "vector"}
    search = Requests("s", vectors=VECTORS[:1], k=2, filters=[b'{"match_all":{}}'], options=options)
    send(peer, search, options={"flavor": "opensearch"})
    asked = json.loads(peer.seen[0][2])
    assert (asked["_source"], asked["docvalue_fields"]) == (["vector"], ["id"])
    assert "stored_fields" not in asked, "or there would be no source"
    scan: dict[str, Any] = asked["query"]["script_score"]
    assert len(scan["script"]["params"].pop("query_value")) == DIM
    assert scan["query"] == {"match_all": {}}
    params = {"field": "vector", "space_type": "l2"}
    assert scan["script"] == {"lang": "knn", "source": "knn_score", "params": params}


def test_rows_are_written_read_and_deleted(peer: Peer) -> None:
    names = np.array(["a", 'b"\n', "c"], dtype=object)
    columns: Any = [
        {"name": "c", "values": np.array([1, 2, 3]), "valid": np.array([True, False, True])},
        {"name": "t", "values": list(names), "valid": None},
    ]
    peer.body = b'{"errors":false}'
    for operation, action in [("insert", "create"), ("upsert", "index")]:
        peer.seen.clear()
        write = Requests(
            "w", operation, vectors=VECTORS[:3], ids=np.arange(3), columns=columns, batch=2,
            once=True, options={**IN, "query": "refresh=true", "id_field": "id"},
        )  # fmt: skip
        _, record = send(peer, write)
        assert (errors(record), record["rows"]) == ({}, 3)
        path, headers, body = peer.seen[0]
        assert path == "/things/_bulk?refresh=true"
        assert headers["content-type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in body.splitlines()]
        assert [lines[0], lines[2]] == [{action: {"_id": "0"}}, {action: {"_id": "1"}}]
        assert (lines[1]["c"], lines[1]["t"], lines[3]["t"]) == (1, "a", 'b"\n')
        assert [lines[1]["id"], lines[3]["id"]] == [0, 1]
        assert "c" not in lines[3], "a missing value is not written"
    peer.seen.clear()
    send(peer, Requests("d", "delete", ids=np.array([5]), once=True, options=IN))
    assert peer.seen[0][2] == '{"delete":{"_id":"5"}}\n'
    peer.body = b'{"docs":[{"found":true},{"found":false}]}'
    _, record = send(
        peer, Requests("g", "get", ids=np.array([5, 6]), batch=2, once=True, options=IN)
    )
    assert errors(record) == {"incomplete": 1}
    path, _, body = peer.seen[-1]
    assert (path, json.loads(body)) == ("/things/_mget", {"ids": ["5", "6"]})
    peer.seen.clear()
    send(peer, Requests("p", "payload", payloads=[b"{}"], options={"path": "/_count?q=1"}))
    assert (peer.seen[0][0], peer.seen[0][2]) == ("/_count?q=1", "{}")


def test_a_refusal_keeps_its_reason(peer: Peer) -> None:
    peer.status, peer.body = 400, b'{"error":{"type":"parsing","reason":"no such field"}}'
    _, record = send(peer, Requests("search", vectors=VECTORS[:1], options=IN))
    assert record["recorder"].errors() == [("http:400", 3, ["parsing: no such field"])]


@pytest.mark.parametrize(
    ("change", "options", "headers", "what"),
    [
        ({}, {"flavor": "solr"}, [], "flavor"),
        ({"options": {}}, {}, [], "'collection' is missing"),
        ({"options": {"collection": "a b"}}, {}, [], "no path"),
        ({}, {}, [("a b", "c")], "header 'a b'"),
        ({}, {}, [("a", "b\r\nc: d")], "header 'a'"),
        ({"filters": [b"{"]}, {}, [], "no JSON"),
        ({"options": {**IN, "fields": "c"}}, {}, [], "'id' is not among"),
        ({"vectors": np.array([[np.nan]], np.float32)}, {}, [], "vector 0"),
        ({"operation": "payload", "payloads": [b""]}, {}, [], "'path' is missing"),
    ],
)
def test_what_cannot_be_sent_is_refused(
    change: dict[str, Any], options: dict[str, str], headers: list[tuple[str, str]], what: str
) -> None:
    to = target("elasticsearch", "127.0.0.1", 1, options=options, headers=headers)
    request = Requests(**{"name": "search", "vectors": VECTORS, "options": IN, **change})
    with pytest.raises(UserError, match=what):
        drive(to, [request], [closed(1, count=1)])
