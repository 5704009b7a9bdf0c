"""A failed check invalidates the trials that rest on it, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import broken_stores
import numpy as np
import pyarrow as pa
import pytest
from in_process import measure_here

from vectrial.datasets import library
from vectrial.experiments.base import Experiment, Target
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.gate.checks import CHECKS
from vectrial.model.capabilities import Index, NoParams
from vectrial.model.context import Context
from vectrial.model.dataset import Provenance
from vectrial.model.metric import Metric
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Phase
from vectrial.model.placement import Certificate, ClientLimits, Placement
from vectrial.model.store import Store
from vectrial.model.trial import Scope
from vectrial.stores.memory import MemoryStore
from vectrial.worker.messages import Finished, JobSpec, TrialSpec


class RowMiscounted(MemoryStore):
    def count(self) -> int:
        return super().count() + 1


class SearchUnderFilters(Experiment):
    """Stands for any experiment that filters."""

    name: ClassVar[str] = "under_filters"
    title: ClassVar[str] = "Filters"
    uses_filters: ClassVar[bool] = True

    def points(self, target: Target) -> list[dict[str, Any]]:
        return [{}]

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        yield Phase("search", 0, 1)


class Messages(list[Any]):
    """Stands for the pipe to the parent."""

    send = list.append

    def recv(self) -> None:
        """What was sent is kept."""


def statuses(
    store: type[Store], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Finished]:
    """What a job with a trial of each kind reports."""
    monkeypatch.setenv("VECTRIAL_HOME", str(folder / "home"))
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((520, 6), dtype=np.float32)
    library.save(
        "few", metric=Metric.L2, vectors=vectors[:500], queries=vectors[500:],
        metadata=pa.table({"size": np.arange(500) % 7}),
        provenance=Provenance("made", "none", "none"),
    )  # fmt: skip
    settings = {"crud": {"samples": 5}, "search": {"min_s": 0, "warmup_queries": 0}}
    trials = tuple(
        TrialSpec(
            kind.name,
            kind(**settings.get(kind.name, {})),
            OperatingPoint({}, NoParams()),
            "embedded",
        )
        for kind in (
            EXPERIMENTS["storage"],
            EXPERIMENTS["search"],
            SearchUnderFilters,
            EXPERIMENTS["crud"],
        )
    )
    where = f"{store.__module__}:{store.__name__}"
    (folder / "data").mkdir()
    kind = next(iter(store.capabilities.indexes))
    certificate = Certificate(ClientLimits(), Placement(), {}, "no native trials")
    spec = JobSpec(
        where,
        Index(kind, NoParams()),
        "few",
        10,
        0,
        1000,
        folder / "data",
        certificate,
        trials,
    )
    messages = Messages()
    measure_here(spec, messages, library.load("few"))
    return {message.key: message for message in messages if isinstance(message, Finished)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "check", "invalid"),
    [
        (MemoryStore, None, set()),
        (broken_stores.FilterIgnored, "filters_hold", {"under_filters"}),
        (broken_stores.FindStopsEarly, "finds_hold", {"crud"}),
        (broken_stores.DeleteIgnored, "deleted_rows_gone", {"crud"}),
        (RowMiscounted, "row_count", {"storage", "search", "under_filters", "crud"}),
    ],
)
def test_a_failed_check_invalidates_what_rests_on_it(
    store: type[Store],
    check: str | None,
    invalid: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = statuses(store, tmp_path, monkeypatch)
    assert {key: trial.status for key, trial in found.items()} == {
        key: "invalid" if key in invalid else "ok" for key in found
    }
    assert len(found) == 4
    for key, trial in found.items():
        # Every trial keeps every answer of the gate, relevant to it or not.
        assert {row.name for row in trial.gate} == CHECKS.keys() - {"nodes_agree", "index_is_asked"}
        failed = {row.name: row.relevant for row in trial.gate if row.passed is False}
        if check is not None:
            assert failed[check] is (key in invalid)
        if key in invalid:
            assert trial.reason is not None
            assert f"{check}: " in trial.reason


def test_every_experiment_rests_on_what_it_uses() -> None:
    crud = EXPERIMENTS["crud"].depends_on()
    assert crud == {Scope.EVERYTHING, Scope.FINDS, Scope.CHANGES}
    assert EXPERIMENTS["search"].depends_on() == {Scope.EVERYTHING}
    assert SearchUnderFilters.depends_on() == {Scope.EVERYTHING, Scope.FILTERS}
