"""The small real suite of these tests."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import NamedTuple

SUITE = """
name = "small"
repeats = 1
k = 10
[[datasets]]
name = "clustered-16-2k"
queries = 50
[[stores]]
store = "memory"
index = "flat"
[[stores]]
store = "hnswlib"
index = "hnsw"
params = { m = 8, ef_construction = 40 }
[[experiments]]
experiment = "ingest"
checkpoints = [0.5, 1.0]
[[experiments]]
experiment = "storage"
[[experiments]]
experiment = "search"
search = { ef_search = [16, 64] }
min_s = 0.1
[[experiments]]
experiment = "search"
clients = [1, 2]
search = { ef_search = 32 }
duration_s = 0.2
[[experiments]]
experiment = "crud"
samples = 50
search = { ef_search = 32 }
"""
#: Nobody is too near to a limit of the client's: a test machine may be busy.
EASY = """
[client_limits]
cpu_share = 100
ceiling_share = 100
lag_us = 1e9
"""
#: memory 2 + 1 + 2 + 1 (one client is asked for twice), hnswlib 2 + 1 + 2 + 2 + 1.
TRIALS = 6 + 8

#: A second of measuring.
TINY = """
name = "tiny"
repeats = 1
[[datasets]]
name = "clustered-16-2k"
queries = 20
[[stores]]
store = "memory"
index = "flat"
[[experiments]]
experiment = "search"
stores = ["memory"]
min_s = 0.1
"""
#: What a library that must not be searched by several threads cannot do.
REFUSED = """
[[stores]]
store = "milvus-lite"
index = "flat"
experiments = ["search"]
[[experiments]]
experiment = "search"
stores = ["milvus-lite"]
clients = [2]
duration_s = 0.1
"""

Vectrial = Callable[..., "subprocess.CompletedProcess[str]"]


class Done(NamedTuple):
    """How a command ended that was run in this process."""

    code: int
    out: str
    err: str


Inside = Callable[..., Done]
