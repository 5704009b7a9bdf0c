"""Collections as frameworks make them, and whether they are searched as by their applications.

The scripts in `tests/support/frameworks` write a collection by the framework's own packages, each
in an environment of its own that uv makes, and search it as an application would.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from measured_collections import K, measured, opened
from numpy.typing import NDArray

from vectrial.engine.client import Requests, closed, drive, record_or_raise
from vectrial.model.capabilities import Params
from vectrial.model.dataset import Dataset
from vectrial.model.existing import Description, Existing
from vectrial.model.metric import Metric
from vectrial.model.store import Address, Store
from vectrial.run.existing import ExistingCollection, suite_of
from vectrial.testing.server_programs import skip_or_fail

SCRIPTS = Path(__file__).parent / "frameworks"
#: How long a framework may take, once its packages are here; and for these as well.
_SECONDS = 300
#: What frameworks need is no newer than this, so that the tests fail for reasons of ours alone.
_NOT_AFTER = "2026-11-28T12:00:00Z"
#: Part of the answers that must be those of the application, on average over the queries.
SAME = 0.99


@dataclass(frozen=True)
class Collection:
    """A collection that a framework made.

    options: what a user adds to `--existing` to have it searched as the application does, by the
        names of the options. answers: numbers of rows that the application found, query by query.
    """

    collection: str
    options: Mapping[str, Any]
    answers: Sequence[Sequence[int]]
    version: str

    @property
    def existing(self) -> Existing:
        """It, in the words of `ExistingCollection`."""
        own = {n: self.options[n] for n in ("id", "vector", "where") if n in self.options}
        return Existing(self.collection, **own)


@dataclass(frozen=True)
class Vectors:
    """rows (n, d), queries (q, d): float32."""

    rows: NDArray[np.float32]
    queries: NDArray[np.float32]


def vectors(rows: int = 600, dim: int = 16, queries: int = 20, seed: int = 5) -> Vectors:
    """Vectors of normal components, of which graphs of few links miss neighbours."""
    rng = np.random.default_rng(seed)
    found = rng.normal(size=(rows + queries, dim)).astype(np.float32)
    return Vectors(found[:rows], found[rows:])


def written(script: str, address: Address, folder: Path, given: Vectors, *words: str) -> Collection:
    """Run a script of `tests/support/frameworks`, and return what it made. words: its further
    arguments.

    A test that needs it is skipped where uv or the framework's packages cannot be had, and fails
    where `VECTRIAL_MUST_RUN` names "frameworks".

    Raises:
        AssertionError: the script failed.
    """
    _save(folder, given)
    server = {"host": address.host, "ports": dict(address.ports), "secrets": dict(address.secrets)}
    (folder / "server.json").write_text(json.dumps(server))
    path = str(SCRIPTS / f"{script}.py")
    _prepared(path)
    done = _uv("run", "--no-project", "--offline", "--script", path, str(folder), *words)
    return _last_line(script, done)


def written_by_spring(address: Address, folder: Path, given: Vectors) -> Collection:
    """As `written`, by the program of Spring AI in `tests/support/frameworks/spring`, whose
    packages Maven fetches."""
    _save(folder, given)
    source, path = SCRIPTS / "spring", folder / "classpath"
    wanted = ("dependency:build-classpath", f"-Dmdep.outputFile={path}")
    try:
        fetched = _run("mvn", "-q", "-B", "-f", str(source / "pom.xml"), *wanted)
    except FileNotFoundError as error:
        skip_or_fail("frameworks", f"there is no Maven: {error}")
    if fetched.returncode:
        skip_or_fail("frameworks", f"no packages of Spring AI: {fetched.stdout[-1000:]}")
    pom = (source / "pom.xml").read_text()
    version = pom.partition("pgvector-store</artifactId>")[2].split("<version>")[1].split("<")[0]
    secrets = address.secrets
    url = f"jdbc:postgresql://{address.host}:{address.ports['postgres']}/"
    url += secrets.get("database", "postgres")
    words = (str(folder), url, secrets.get("user", "postgres"), version)
    java = ("java", "-cp", path.read_text(), str(source / "Books.java"))
    done = _run(*java, *words, PGPASSWORD=secrets["password"])
    return _last_line("spring", done)


def _save(folder: Path, given: Vectors) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "rows.npy", given.rows)
    np.save(folder / "queries.npy", given.queries)


def _last_line(script: str, done: subprocess.CompletedProcess[str]) -> Collection:
    assert done.returncode == 0, f"{script}: {done.stderr[-4000:]}"
    return Collection(**json.loads(done.stdout.strip().splitlines()[-1]))


def _prepared(path: str) -> None:
    """The script's environment is there after this; otherwise see `written`."""
    try:
        done = _uv("sync", "--script", path)
    except FileNotFoundError as error:
        skip_or_fail("frameworks", f"there is no uv: {error}")
    if done.returncode:
        skip_or_fail("frameworks", f"no environment for {path}: {done.stderr[-1000:]}")


def _uv(*words: str) -> subprocess.CompletedProcess[str]:
    uv = str(Path(sys.executable).with_name("uv"))
    return _run(uv, *words, UV_EXCLUDE_NEWER=_NOT_AFTER)


def _run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(
        words, capture_output=True, text=True, timeout=_SECONDS, check=False, env=environment
    )


def searched_as_by_its_application(
    name: str, address: Address, made: Collection, given: Vectors, metric: Metric | None = None
) -> tuple[Description, float]:
    """Measure a collection, and compare its searches with those of its application.

    Its gate must pass, and the search that `run --existing` measures first must find the rows that
    the application found. metric: as a user gives it.

    Returns:
        Its description, and the recall of the application's answers.
    """
    reading, found, dataset = measured(name, address, made.existing, metric)
    reading = replace(reading, search=made.options.get("search", {}))
    answers = as_measured_first(reading, found, dataset, given)
    same = overlap(answers, made.answers)
    assert same >= SAME, f"{made.version}: {same} of the application's answers"
    return found, _recall(made.answers, found, dataset, given)


def overlap(answers: Sequence[Sequence[int]], others: Sequence[Sequence[int]]) -> float:
    """Part of the rows of the longer answer that both have, on average over the queries; all where
    neither found one."""
    pairs = zip(answers, others, strict=True)
    each = [
        len(set(a) & set(b)) / longer if (longer := max(len(a), len(b))) else 1.0 for a, b in pairs
    ]
    return float(np.mean(each))


def as_measured_first(
    reading: ExistingCollection, found: Description, dataset: Dataset, given: Vectors
) -> list[list[int]]:
    """What the search that is measured first finds, as numbers of rows, query by query."""
    suite = suite_of(reading, found, dataset, k=K, repeats=1, lane=None)
    settings = (suite.experiments[0].model_extra or {})["search"]
    params = reading.store.capabilities.indexes[found.index].search.model_validate(settings)
    numbers = _numbers(dataset, given)
    with closing(opened(reading, found, dataset)) as store:
        search = store.searcher(K, params)
        return [[numbers[one] for one in search(query)[0].tolist()] for query in given.queries]


def check_native_lane(store: Store, params: Params, queries: NDArray[np.float32]) -> None:
    """The native lane finds the same rows as the client.

    Raises:
        AssertionError: it does not.
    """
    native, search = store.native_search(K, params), store.searcher(K, params)
    requests = Requests(
        "search",
        vectors=queries,
        k=K,
        filters=[native.filter] if native.filter else [],
        options=native.options,
        keep=True,
        once=True,
    )
    outcome = drive(native.target, [requests], [closed(1, count=len(queries))])
    answers = record_or_raise(outcome, "searches")["answers"]
    assert answers is not None
    which, ids, _ = answers
    assert len(which) == len(queries)
    for query, found in zip(which.tolist(), ids, strict=True):
        assert set(found.tolist()) == set(search(queries[query])[0].tolist())


def _numbers(dataset: Dataset, given: Vectors) -> dict[int, int]:
    """Numbers of the rows by their ids in the dataset: the vectors tell. They may have come back
    normalised, or in half precision."""
    scores = _normalised(np.asarray(dataset.vectors)) @ _normalised(given.rows).T
    return dict(zip(dataset.ids.tolist(), scores.argmax(axis=1).tolist(), strict=True))


def _normalised(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths: NDArray[np.float32] = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / lengths


def _recall(
    answers: Sequence[Sequence[int]], found: Description, dataset: Dataset, given: Vectors
) -> float:
    """Part of the nearest rows of the dataset that these answers have."""
    assert found.metric is not None
    rows = np.asarray(dataset.vectors)
    if found.metric is Metric.COSINE:
        far = -(_normalised(given.queries) @ _normalised(rows).T)
    elif found.metric is Metric.IP:
        far = -(given.queries @ rows.T)
    else:
        far = np.linalg.norm(given.queries[:, None] - rows[None], axis=2)
    numbers = _numbers(dataset, given)
    nearest = np.argsort(far, axis=1)[:, :K]
    each = [
        len({numbers[int(dataset.ids[at])] for at in best} & set(own)) / K
        for best, own in zip(nearest, answers, strict=True)
    ]
    return float(np.mean(each))
