"""A test of a store: a small load, a search through every lane, and the gate.

It runs in a process of its own, because a library may crash, and in the store's own environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Judge
from vectrial.datasets.exact import exact_topk
from vectrial.engine.client import closed, drive
from vectrial.gate import ExpectedRows, GateResult, Subject, run_gate
from vectrial.gate.checks import CHECKS
from vectrial.model.capabilities import Index, Returning
from vectrial.model.errors import StoreError, VectrialError
from vectrial.model.lane import Lane, lanes_of, python_lane
from vectrial.model.metric import distances
from vectrial.model.progress import LineProgress
from vectrial.model.schema import Schema
from vectrial.model.store import Store
from vectrial.model.trial import Scope
from vectrial.servers.local import variable_name
from vectrial.servers.provide import prepare, recipe_of, server_address
from vectrial.stores import registry
from vectrial.stores.common.arrow import batch_of
from vectrial.stores.common.temporary import close_store
from vectrial.util import environments
from vectrial.util.arrow import load_without_pandas
from vectrial.util.child_environment import for_measuring_with_server
from vectrial.util.children import program
from vectrial.workload.searchers import NativeSearches, native_searches

ROWS, DIM, K, QUERIES = 1_000, 16, 10, 20
#: A server may take a minute to start.
TIMEOUT_S = 300


@dataclass(frozen=True)
class Probe:
    """The outcome of a probe. version: reported by the store; None if it failed before that."""

    works: bool
    detail: str
    version: str | None = None


def probe(store: type[Store], progress: LineProgress = lambda line: None) -> Probe:
    """Test `store` in another process. Its own environment must exist; the program of its server
    is fetched."""
    recipe = recipe_of(store)
    chosen = {}
    if recipe is not None:
        try:
            chosen = {variable_name(recipe, "provider"): prepare(recipe, progress).provider.value}
        except VectrialError as error:
            return Probe(False, str(error))
    server = None if recipe is None else recipe.name
    arguments = [registry.reference(store)]
    if store.environment is not None:
        command = environments.command(
            store.environment, "vectrial.util.program", [__name__, *arguments], classes=(store,)
        )
        argv, env = command.argv, for_measuring_with_server(command.env, server)
    else:
        argv, env = program(__name__, *arguments), for_measuring_with_server(os.environ, server)
    try:
        done = subprocess.run(
            argv,
            env={**env, **chosen},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Probe(False, f"no answer within {TIMEOUT_S} s")
    try:
        return Probe(**json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError, TypeError):
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return Probe(False, f"the process ended with {done.returncode}: {last}")


def run_probe(store: type[Store]) -> Probe:
    """Load `ROWS` rows under the store's first index and metric, in this process. Then run the
    gate's checks, and search once through every lane."""
    can = store.capabilities
    kind = next(iter(can.indexes))
    metric = next(iter(can.for_index(kind).scores))
    schema = Schema(DIM, metric)
    index = Index(kind, can.indexes[kind].build())
    rng = np.random.default_rng(0)
    ids, vectors = np.arange(ROWS), rng.normal(size=(ROWS, DIM)).astype(np.float32)
    queries = vectors[:QUERIES]
    truth = exact_topk(vectors, ids, queries, metric, K)
    judge = Judge(K, truth.accept_offsets, truth.accept_ids, truth.available)
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory() as server,
        server_address(store, Path(server)) as address,
    ):
        make = store if address is None else partial(store, address=address)
        place = Path(folder) / "probe"
        place.mkdir()
        tested = make(place)
        try:
            version = tested.version()
            tested.create(schema, index)
            tested.insert(batch_of(schema, ids, vectors, {}))
            tested.flush()
            tested.build()
            tested.wait_indexed()
            rows = ExpectedRows(ids, vectors)
            subject = Subject(tested, make, schema, index, rows, queries, judge, K)
            found = _mean_true_neighbours(subject)
            lanes = [f"{python_lane(store)} lane"]
            if Lane.NATIVE in lanes_of(store):
                params = can.indexes[kind].nearly_exact(K)
                native = native_searches(tested, Returning.IDS, K, params, None)
                lanes.append(_check_engine(native, queries, judge))
            results = run_gate(subject, Path(folder) / "beside")
        finally:
            close_store(tested)
    what = f"{ROWS} rows under {kind}, {metric}: {found:g} of the {K} nearest found"
    what += f" ({', '.join(lanes)})"
    return _probe_of_checks(what, results, found, version)


def _mean_true_neighbours(subject: Subject) -> float:
    """Mean number of true neighbours per answer, through the store's own methods."""
    rows, answers = subject.rows, subject.answer(subject.queries)
    right = 0
    for query, (ids, _) in zip(subject.queries, answers, strict=True):
        near = np.argsort(distances(query, rows.vectors, subject.schema.metric))[:K]
        right += len(set(near.tolist()) & set(ids.tolist()))
    return right / len(answers)


def _check_engine(native: NativeSearches, queries: NDArray[np.float32], judge: Judge) -> str:
    """Run the same searches through the engine; returns text with the number of true neighbours.

    Raises:
        StoreError: an answer was an error.
    """
    requests = native.requests("search", queries, judge=judge)
    outcome = drive(native.native.target, [requests], [closed(1, count=len(queries))])
    recorder = outcome["classes"][0]["recorder"]
    for kind, count, messages in recorder.errors():
        raise StoreError(f"native lane: {count} searches failed ({kind}): {'; '.join(messages)}")
    return f"native lane {K * (recorder.summary()['recall_mean'] or 0.0):g}"


def _probe_of_checks(what: str, results: Sequence[GateResult], found: float, version: str) -> Probe:
    """The outcome: works, unless a failed check invalidates everything; others are listed."""
    failed = [result for result in results if result.passed is False or result.raised]
    if not failed:
        passed = sum(result.passed is True for result in results)
        return Probe(found > 0, f"{what}; gate: {passed} checks passed", version)
    failures = "; ".join(f"{one.name}: {one.detail}" for one in failed)
    fatal = any(CHECKS[one.name].invalidates is Scope.EVERYTHING for one in failed)
    return Probe(found > 0 and not fatal, f"{what}; gate failed: {failures}", version)


def main() -> None:
    """Print the outcome as one line of JSON. Argument: the store's reference."""
    load_without_pandas()
    try:
        outcome = run_probe(registry.resolve(sys.argv[1]))
    except Exception as error:  # noqa: BLE001 - whatever a library raises is the answer
        outcome = Probe(False, f"{type(error).__name__}: {error}")
    print(json.dumps(asdict(outcome)))
