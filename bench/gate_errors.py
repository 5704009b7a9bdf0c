"""How often the gate calls a right store wrong, and how often it lets a wrong one pass.

Right stores are libraries that are in use, each index under each metric, loaded with the awkward
rows of the conformance suite (`vectrial/testing/conformance/awkward.py`), drawn anew by each seed.
Rows that the plan refuses are not loaded. Goal: none is called wrong.

Wrong ones are those of docs/lies.md that the gate is there for, on the same rows. One that is not
caught where it gives back and answers just what a right store does, to every query and to every row
as one, tells no lie about these rows (half of an answer of one row); else it is missed.

A rate of none among n is below 3/n with a probability of 95 % (the rule of three: Hanley and
Lippman-Hand, JAMA 249(13), 1983).
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "support")]

import broken_stores  # noqa: E402
import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
from lies import lies  # noqa: E402

from vectrial._engine import Judge  # noqa: E402
from vectrial.datasets.exact import exact_topk  # noqa: E402
from vectrial.gate import ExpectedRows, Subject, run_gate  # noqa: E402
from vectrial.model.capabilities import Index, NoParams  # noqa: E402
from vectrial.model.metric import Metric  # noqa: E402
from vectrial.stores import registry  # noqa: E402
from vectrial.stores.common.arrow import ids_of  # noqa: E402
from vectrial.stores.common.temporary import close_store  # noqa: E402
from vectrial.stores.memory import MemoryStore  # noqa: E402
from vectrial.testing.conformance.awkward import Awkward, datasets  # noqa: E402
from vectrial.testing.conformance.cases import all_cases  # noqa: E402
from vectrial.testing.conformance.test_innocence import batch, is_refused, verdicts  # noqa: E402

STORES = ("chroma", "duckdb", "faiss", "hnswlib", "lancedb", "qdrant-edge", "sqlite-vec", "usearch")
INDEX = Index("flat", NoParams())
#: What is no lie under a metric: it is answered by that one, or any length is a vector's own.
_NO_LIE = {
    (broken_stores.WrongMetric, Metric.L2),
    (broken_stores.AlwaysCosine, Metric.COSINE),
    (broken_stores.CompressedTooLong, Metric.COSINE),
}


def right(stores: list[str], seeds: int) -> tuple[Counter[str], list[str]]:
    """Loads by how they ended, and what was said of those that are called wrong."""
    ends: Counter[str] = Counter()
    said = []
    for name in stores:
        for case in all_cases(registry.load(name)):
            for seed in range(1, seeds + 1):
                for one in datasets(seed):
                    if case.metric not in one.metrics:
                        continue
                    if is_refused(case, one):
                        ends["refused by the plan"] += 1
                        continue
                    with TemporaryDirectory() as folder:
                        faults = verdicts(case, one, Path(folder))
                    ends["wrong" if faults else "passed"] += 1
                    if faults:
                        said.append(f"{name} {case.index} {case.metric}: {one.what}: {faults[0]}")
            print(f"{name} {case.index} {case.metric}: {dict(ends)}", file=sys.stderr)
    return ends, said


def outcome(kind: type[MemoryStore], one: Awkward, metric: Metric, folder: Path) -> str:
    """What came of a lie: "caught" by a check of the gate, "missed", or "no lie" on these rows."""
    with loaded(kind, one, metric, folder / "big") as store:
        schema = one.schema(metric)
        truth = exact_topk(one.vectors, one.ids, one.queries, metric, one.k)
        judge = Judge(one.k, truth.accept_offsets, truth.accept_ids, truth.available)
        rows = ExpectedRows(one.ids, one.vectors, one.metadata)
        subject = Subject(store, kind, schema, INDEX, rows, one.queries, judge, one.k)
        if any(result.passed is False for result in run_gate(subject, folder / "beside")):
            return "caught"
    with (
        loaded(kind, one, metric, folder / "liar") as liar,
        loaded(MemoryStore, one, metric, folder / "right") as right,
    ):
        return "no lie" if seen(liar, one) == seen(right, one) else "missed"


@contextmanager
def loaded(
    kind: type[MemoryStore], one: Awkward, metric: Metric, folder: Path
) -> Iterator[MemoryStore]:
    """A store with these rows."""
    folder.mkdir()
    store = kind(folder)
    try:
        schema = one.schema(metric)
        store.create(schema, INDEX)
        store.insert(batch(schema, one))
        store.flush()
        store.build()
        yield store
    finally:
        close_store(store)


def seen(store: MemoryStore, one: Awkward) -> list[object]:
    """What a store shows of these rows; the order of equal rows does not matter."""
    search = store.searcher(one.k, NoParams())
    answers = [search(vector) for vector in (*one.queries, *one.vectors)]
    kept = store.get(one.ids)
    order: Any = pa.array(np.argsort(ids_of(kept)))
    return [
        store.count(),
        kept.take(order).to_pylist(),
        [(sorted(ids.tolist()), scores.tolist()) for ids, scores in answers],
    ]


def wrong(seeds: int) -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """Lies by whether they were caught, and which were not, on what rows."""
    ends: Counter[str] = Counter()
    missed: Counter[tuple[str, str]] = Counter()
    first = broken_stores.FIRST_ID
    for lie in lies():
        if not (lie.caught.startswith("gate") and lie.kind.__module__ == "broken_stores"):
            continue
        for seed in range(1, seeds + 1):
            for one in datasets(seed):
                # These stores lie about rows whose ids are from here on.
                ids = one.ids if one.ids.max() > 2**62 else one.ids + first
                for metric in one.metrics:
                    if (lie.kind, metric) in _NO_LIE:
                        continue
                    with TemporaryDirectory() as folder:
                        end = outcome(lie.kind, replace(one, ids=ids), metric, Path(folder))
                    ends[end] += 1
                    if end == "missed":
                        missed[lie.kind.__name__, one.what] += 1
        print(f"{lie.kind.__name__}: {dict(ends)}", file=sys.stderr)
    return ends, missed


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--seeds", type=int, default=3, help="of the rows that stores are loaded with"
    )
    parser.add_argument("--store", action="append", help="a right store; may be repeated")
    parser.add_argument("--lies", type=int, default=1, help="seeds of the rows that are lied about")
    given = parser.parse_args()
    ends, said = right(given.store or list(STORES), given.seeds)
    print(f"right stores: {dict(ends)}")
    print(*said, sep="\n")
    ends, missed = wrong(given.lies)
    print(f"wrong stores: {dict(ends)}")
    for (lie, what), count in missed.most_common():
        print(f"{lie} on {what}: missed {count} times")


if __name__ == "__main__":
    main()
