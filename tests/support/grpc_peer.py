"""A gRPC server made of a database's own message classes, to check our wire protocols against."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from vectrial.engine.types import LoadOutcome


@dataclass(frozen=True)
class Call:
    """A request as it came: method (`/package.Service/Method`), metadata, and bytes."""

    method: str
    metadata: Mapping[str, str]
    body: bytes


@dataclass
class Peer:
    """A server that writes down what it is asked. `answers`: the bytes to answer a method with,
    made from the request's; a method without one is not implemented."""

    port: int = 0
    calls: list[Call] = field(default_factory=list)
    answers: dict[str, Callable[[bytes], bytes]] = field(default_factory=dict)

    def service(self, details: Any) -> grpc.RpcMethodHandler | None:
        """The handler of a method, of bytes and not of messages."""
        answer = self.answers.get(details.method)
        if answer is None:
            return None
        metadata = {name: str(value) for name, value in details.invocation_metadata}

        def reply(body: bytes, _: grpc.ServicerContext) -> bytes:
            self.calls.append(Call(details.method, metadata, body))
            return answer(body)

        return grpc.unary_unary_rpc_method_handler(reply)


@contextmanager
def serving() -> Iterator[Peer]:
    """A peer on a free port of the loopback interface."""
    there = Peer()

    class Handler(grpc.GenericRpcHandler):
        def service(self, handler_call_details: Any) -> grpc.RpcMethodHandler | None:
            return there.service(handler_call_details)

    server = grpc.server(ThreadPoolExecutor(2), handlers=[Handler()])
    there.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield there
    server.stop(None).wait()


def errors_of(outcome: LoadOutcome) -> dict[str, list[str]]:
    """Classes of errors of a run with one class of requests, each with its messages."""
    (record,) = outcome["classes"]
    return {name: messages for name, _, messages in record["recorder"].errors()}
