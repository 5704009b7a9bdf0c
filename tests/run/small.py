"""The small real suite of these tests."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

SUITE = """
name = "small"
repeats = 2
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
experiment = "footprint"
[[experiments]]
experiment = "recall_sweep"
search = { ef_search = [16, 64] }
min_s = 0.3
[[experiments]]
experiment = "concurrency"
clients = [1, 2]
search = { ef_search = 32 }
duration_s = 0.3
[[experiments]]
experiment = "crud"
samples = 200
search = { ef_search = 32 }
"""
#: Nobody is too near to a limit of the client's: a test machine may be busy.
EASY = """
[client_limits]
cpu_share = 100
ceiling_share = 100
lag_us = 1e9
"""
#: Per repeat: memory 2 + 1 + 1 + 2 + 1, hnswlib 2 + 1 + 2 + 2 + 1.
TRIALS = 2 * (7 + 8)

Vectrial = Callable[..., "subprocess.CompletedProcess[str]"]
