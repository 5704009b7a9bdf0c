"""The highest rate of arrivals that a Redis index answers within a p99, by a plain sender: sockets,
a schedule, and a clock. Latency counts from when a request is due."""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from dataclasses import dataclass

import numpy as np

from oracles.vectors import Ids, K, Neighbours, Vectors

CONNECTIONS = 64
_INDEX = "oracle"
_BATCH = 500


def command(*parts: bytes | str | int | float) -> bytes:
    """A command in Redis' protocol."""
    encoded = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    head = b"*%d\r\n" % len(encoded)
    return head + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in encoded)


def search_command(query: np.ndarray, ef: int) -> bytes:
    """A search for the ids of the k nearest rows."""
    ask = f"*=>[KNN {K} @v $q EF_RUNTIME $ef]=>{{$YIELD_DISTANCE_AS: d}}"
    return command(
        "FT.SEARCH", _INDEX, ask, "PARAMS", 4, "q", query.astype(np.float32).tobytes(), "ef", ef,
        "SORTBY", "d", "NOCONTENT", "LIMIT", 0, K, "DIALECT", 2,
    )  # fmt: skip


class Peer:
    """One connection that waits for each reply."""

    def __init__(self, port: int, password: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.read = b""
        if password:
            self.ask(command("AUTH", password), 1)

    def ask(self, text: bytes, lines: int) -> bytes:
        """Send a command and wait for a reply of so many lines."""
        self.socket.sendall(text)
        while self.read.count(b"\r\n") < lines and not self.read.startswith(b"-"):
            self.read += self.socket.recv(1 << 16)
        reply, self.read = self.read, b""
        if reply.startswith(b"-"):
            raise RuntimeError(reply.decode(errors="replace"))
        return reply


def load(port: int, data: Vectors, m: int, ef_construction: int, password: str) -> None:
    """Make the index and write every row."""
    peer, dim = Peer(port, password), data.rows.shape[1]
    metric = "COSINE" if data.metric == "cosine" else "L2"
    about = [
        "TYPE", "FLOAT32", "DIM", dim, "DISTANCE_METRIC", metric, "M", m,
        "EF_CONSTRUCTION", ef_construction,
    ]  # fmt: skip
    peer.ask(
        command(
            "FT.CREATE", _INDEX, "PREFIX", 1, "o:", "SCHEMA", "v", "VECTOR", "HNSW", len(about),
            *about,
        ),
        1,
    )  # fmt: skip
    for at in range(0, len(data.rows), _BATCH):
        rows = data.rows[at : at + _BATCH]
        text = b"".join(
            command("HSET", f"o:{at + i}", "v", row.tobytes()) for i, row in enumerate(rows)
        )
        peer.ask(text, len(rows))
    indexed = b""
    while indexed != b"0":  # "indexing" of FT.INFO is 1 while rows are behind
        info = peer.ask(command("FT.INFO", _INDEX) + command("PING"), 1)
        while not info.endswith(b"+PONG\r\n"):
            info += peer.socket.recv(1 << 16)
        parts = info.split(b"\r\n")
        indexed = parts[parts.index(b"indexing") + 1].lstrip(b":")
        if indexed.startswith(b"$"):
            indexed = parts[parts.index(b"indexing") + 2]
        time.sleep(0.2)


def ids_of(reply: bytes) -> Ids:
    """The ids of a reply: total, then each key."""
    lines = reply.split(b"\r\n")
    return np.array([int(line[2:]) for line in lines[3::2] if line.startswith(b"o:")])


def least_ef(port: int, truth: Neighbours, recall: float, password: str) -> int:
    """The least EF_RUNTIME that reaches a recall."""
    peer = Peer(port, password)

    def reaches(ef: int) -> bool:
        answers = [ids_of(peer.ask(search_command(q, ef), 2 + 2 * K)) for q in truth.queries]
        return truth.recall(np.stack(answers)) >= recall

    low, high = K - 1, 1024
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class Load:
    """What a rate came to. p99_us: of those answered; late: arrivals that were never sent."""

    rate: float
    p99_us: float
    late: int


def send(
    port: int, commands: list[bytes], rate: float, seconds: float, seed: int, password: str
) -> Load:
    """Send searches at a rate of Poisson arrivals."""
    rng = np.random.default_rng(seed)
    due = np.cumsum(rng.exponential(1 / rate, int(rate * seconds * 1.2) + 100))
    due = due[due < seconds]
    selector, idle = selectors.DefaultSelector(), deque[Peer]()
    for _ in range(CONNECTIONS):
        peer = Peer(port, password)
        peer.socket.setblocking(False)
        selector.register(peer.socket, selectors.EVENT_READ, peer)
        idle.append(peer)
    sent_due: dict[int, float] = {}
    latencies: list[float] = []
    waiting = deque((float(at), number) for number, at in enumerate(due))
    began, lines = time.perf_counter(), 2 + 2 * K
    while waiting or sent_due:
        now = time.perf_counter() - began
        if now > 2 * seconds:
            break
        while waiting and waiting[0][0] <= now and idle:
            at, number = waiting.popleft()
            peer = idle.popleft()
            peer.socket.send(commands[number % len(commands)])
            sent_due[id(peer)] = at
        pause = 0.0 if waiting and waiting[0][0] <= now else 0.0005
        for key, _ in selector.select(pause if idle and waiting else 0.05):
            peer = key.data
            peer.read += peer.socket.recv(1 << 16)
            if peer.read.count(b"\r\n") >= lines:
                peer.read = b""
                latencies.append(time.perf_counter() - began - sent_due.pop(id(peer)))
                idle.append(peer)
    for key in list(selector.get_map().values()):
        key.data.socket.close()
    found = np.quantile(latencies, 0.99) * 1e6 if latencies else np.inf
    return Load(rate, float(found), len(waiting) + len(sent_due))


def highest(
    port: int,
    commands: list[bytes],
    p99_us: float,
    start: float,
    password: str,
    seconds: float = 10.0,
) -> float:
    """The highest rate that holds in two of three looks, to 3 %."""

    def within(rate: float) -> bool:
        looks = 0
        for seed in range(3):
            one = send(port, commands, rate, seconds, seed, password)
            looks += one.p99_us <= p99_us and not one.late
            if looks == 2 or looks + 2 - seed < 2:
                break
        return looks == 2

    low, high = 0.0, start
    while within(high):
        low, high = high, high * 1.4
    if not low:
        low = high / 1.4
        while not within(low):
            low, high = low / 1.4, low
    while high / low > 1.03:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if within(middle) else (low, middle)
    return low
