"""The native engine over HTTP (Elasticsearch's words) and RESP (Redis's), as `native_grpc.py` does
it over gRPC: processor time of the client per judged and recorded request, beside Python's clients.
"""

from __future__ import annotations

import sys

import python_clients
from native_load import SERVER_CORE, alone, beside, requests, start
from vectrial.engine.null_server import null_server


def main() -> int:
    """Measure, print, and append to the file that was asked for."""
    bench = start(__doc__)
    with null_server("http", cores=[SERVER_CORE]) as server:
        for dim, goal in ((100, 15.0), (768, None)):
            asked = requests(dim, collection="bench", num_candidates="64")
            alone(bench, "elasticsearch", server, asked, {1: None, 8: goal, 32: goal})
            beside(bench, "elasticsearch", server, asked, ((python_clients.elasticsearch, 1 / 20),))
    with null_server("resp", cores=[SERVER_CORE]) as server:
        for dim, single, pipelined in ((100, 13.0, 6.0), (768, None, None)):
            asked = requests(dim, collection="bench", ef="64")
            alone(bench, "redis", server, asked, {1: None, 8: single})
            alone(bench, "redis-pipelined", server, asked, {8: None, 32: pipelined})
            beside(bench, "redis", server, asked, ((python_clients.redis_py, None),))
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
