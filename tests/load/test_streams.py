"""Several classes of requests at once: what comes before the clock, and what a store hears of."""

from __future__ import annotations

import socket

import numpy as np
import pytest

from vectrial.distance import Metric
from vectrial.errors import StoreError
from vectrial.load.ceiling import Certificate, ClientLimits
from vectrial.load.native import target
from vectrial.load.placement import Placement
from vectrial.load.streams import Stream, by_engine
from vectrial.stores.base import Schema, Wire, WireRows

QUERIES = np.eye(4, dtype=np.float32)


def test_a_warm_up_that_fails_is_no_warm_up() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and nobody listens
        to = target("null-grpc", "127.0.0.1", held.getsockname()[1])
        searches = Stream("search", "search", np.array([0], np.int64), QUERIES[:1])
        with pytest.raises(StoreError, match="4 searches before the clock failed"):
            by_engine(
                Wire(to),
                WireRows(to, {}, {}),
                [searches],
                Schema(4, Metric.L2),
                1,
                0.1,
                Certificate(ClientLimits(), Placement(), {}),
                connections=1,
                warmup=QUERIES,
                seed=0,
                progress=lambda *_: None,
            )
