"""Does a store really run here? A small load and a search, in a process of its own.

A process of its own, so that a library that crashes takes nothing else along, and so that a
store with its own environment is tried where it will be measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from vectrial import environments
from vectrial.distance import distances
from vectrial.servers.base import ServerError
from vectrial.servers.provide import prepare, recipe_of, serving
from vectrial.stores import registry
from vectrial.stores.arrow import batch_of
from vectrial.stores.base import Index, Schema, Store

ROWS, DIM, K = 1_000, 16, 10
TIMEOUT_S = 120


@dataclass(frozen=True)
class Probe:
    """What came of it. version: as the store says itself; None when it did not get so far."""

    works: bool
    detail: str
    version: str | None = None


def probe(store: type[Store], progress: Callable[[str], None] = lambda line: None) -> Probe:
    """Try `store` in a process of its own. An environment of its own must stand already; the
    program of its server is fetched, of which `progress` is told."""
    recipe = recipe_of(store)
    if recipe is not None:
        try:
            prepare(recipe, progress)
        except ServerError as error:
            return Probe(False, str(error))
    arguments = [registry.reference(store)]
    if store.environment is not None:
        command = environments.command(store.environment, __name__, arguments)
        argv, env = list(command.argv), dict(command.env)
    else:
        argv, env = [sys.executable, "-m", __name__, *arguments], None
    try:
        done = subprocess.run(
            argv, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Probe(False, f"no answer within {TIMEOUT_S} s")
    try:
        return Probe(**json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError, TypeError):
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return Probe(False, f"the process ended with {done.returncode}: {last}")


def attempt(store: type[Store]) -> Probe:
    """Load `ROWS` rows under the store's first index and metric, in this process, and search."""
    can = store.capabilities
    kind = next(iter(can.indexes))
    metric = next(iter(can.under(kind).scores))
    schema = Schema(DIM, metric)
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(ROWS, DIM)).astype(np.float32)
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory() as server,
        serving(store, Path(server)) as address,
    ):
        tried = store(Path(folder)) if address is None else store(Path(folder), address)
        try:
            version = tried.version()
            tried.create(schema, Index(kind, can.indexes[kind].build()))
            tried.insert(batch_of(schema, np.arange(ROWS), vectors, {}))
            tried.flush()
            tried.build()
            tried.wait_indexed()
            params = can.indexes[kind].search.model_validate(dict(can.indexes[kind].generous))
            ids, _ = tried.searcher(K, params)(vectors[0])
        finally:
            tried.close()
    true = set(np.argsort(distances(vectors[0], vectors, metric))[:K].tolist())
    right = len(true & set(ids.tolist()))
    what = f"{ROWS} rows under {kind}, {metric}: {right} of the {K} nearest found"
    return Probe(right > 0, what, version)


def main(reference: str) -> None:
    """Print the outcome as one line of JSON."""
    try:
        outcome = attempt(registry.resolve(reference))
    except Exception as error:  # noqa: BLE001 - whatever a library raises is the answer
        outcome = Probe(False, f"{type(error).__name__}: {error}")
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main(sys.argv[1])
