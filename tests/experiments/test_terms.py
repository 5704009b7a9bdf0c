"""What an experiment says of its phases is known to `compare`: as a term of the measurement, which
must be equal on both sides, or as a setting, which need not be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from experiment_worlds import EMBEDDED, ROWS, dataset, run
from numpy.typing import NDArray
from small_experiments import QUICK, Small, check_terms

from vectrial.compare.groups import conditions_of, terms_of
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.model.capabilities import Hybrid, Params
from vectrial.model.dataset import Dataset
from vectrial.model.fusion import Blend, Fusion
from vectrial.model.store import Hits, HybridSearcher
from vectrial.stores import registry
from vectrial.stores.memory import MemoryStore
from vectrial.stores.sqlite.store import SqliteStore


class Worded(MemoryStore):
    """Takes texts, and searches by the vector all the same."""

    capabilities = replace(
        MemoryStore.capabilities, hybrid=Hybrid({Fusion.WEIGHTED_SUM: "made up"}, "words")
    )

    def hybrid_searcher(self, k: int, params: Params, blend: Blend) -> HybridSearcher:
        by_vector = self.searcher(k, params)

        def search(vector: NDArray[np.float32], text: str, /) -> Hits:
            return by_vector(vector)

        return search


def texts() -> Dataset:
    rows = dataset()
    table = pa.table({"about": [f"text of row {row}" for row in range(ROWS)]})
    return replace(rows, metadata=table)


SMALL = {
    "ingest": Small({"checkpoints": (1.0,), "probes": 2, "settle_s": None}),
    "transport": Small({"sizes": (1.0,), "clients": 1, "min_s": 0.0, "mixed_s": 0.05}),
    "storage": Small({"rows": (1.0,), "settle_s": 0.1}, SqliteStore),
    "time_to_searchable": Small({"looks": 2}),
    "search": Small(QUICK),
    "filtered": Small(
        {"predicates": ("independent",), "selectivities": (0.3,), "depths": (2,), **QUICK}
    ),
    "hybrid": Small({"queries": 5, **QUICK}, Worded, texts()),
    "fit": Small({"memory": "4GiB", "processors": 1, "duration_s": 0.05, "warmup_s": 0.0}),
    "capacity": Small(
        {
            "duration_s": 0.05,
            "confirm_s": 0.05,
            "confirmations": 1,
            "most_rate": 20.0,
            "p99_ms": 1000.0,
        }
    ),
    "condition": Small({"samples": 5}),
    "crud": Small({"samples": 5}),
    "mixed": Small({"operations": 50}),
    "durability": Small(
        {"rows": 20, "count": 1, "least_s": 0, "most_s": 0.1, "window_s": 0}, SqliteStore
    ),
    "runbook": Small({"script": "hot_updates", "min_s": 0.0, "warmup_queries": 0}),
    "unindexed_rows": Small({"unindexed": (0.2,), "duration_s": 0.1, "warmup_queries": 0}),
    "write_amplification": Small({"settle_s": 0}, SqliteStore),
}


#: Settings that make another experiment of one.
OTHERS = {
    "transport": {"operations": ("export",), "min_s": 0.0},
    "ingest": {"payload_index": ("none", "off", "on"), "fields": 2},
    "storage": {},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*EMBEDDED, *(f"{name} again" for name in OTHERS)])
def test_every_parameter_of_a_phase_is_a_term_or_a_setting(name: str, tmp_path: Path) -> None:
    name, _, again = name.partition(" ")
    small = SMALL.get(name, Small())
    check_terms(name, replace(small, params=OTHERS[name]) if again else small, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("filtered", {"pivots": 1}, {"pivots": 4}),
        ("hybrid", {"queries": 3}, {"queries": 5}),
    ],
)
def test_settings_that_decide_a_figure_are_terms_of_it(
    name: str,
    one: dict[str, Any],
    other: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small, found = SMALL[name], []
    for asked in (one, other):
        experiment = EXPERIMENTS[name].model_validate({**small.params, **asked})
        phases = run(experiment, small.store, tmp_path, given=small.data)
        found.append([{k: v for k, v in p.params.items() if k in terms_of(name)} for p in phases])
    last, differently = found[0][-1], found[1][-1]
    if name == "filtered":  # the last are of shapes, which have no pivots
        last, differently = (next(t for t in terms if "pivots" in t) for terms in found)
    assert last != differently


@pytest.mark.parametrize("name", ["ingest", "time_to_searchable", "storage"])
def test_figures_of_loads_tell_the_rows_of_a_batch(name: str, tmp_path: Path) -> None:
    small = SMALL[name]
    params = OTHERS["ingest"] if name == "ingest" else small.params
    experiment = EXPERIMENTS[name].model_validate(dict(params))
    for phase in run(experiment, small.store, tmp_path):
        assert phase.params["batch_rows"] == 100, phase.name


@pytest.mark.slow
def test_an_answer_of_capacity_tells_how_requests_arrived(tmp_path: Path) -> None:
    asked = EXPERIMENTS["capacity"].model_validate(
        {**SMALL["capacity"].params, "arrivals": "constant"}
    )
    answer = run(asked, MemoryStore, tmp_path)[-1]
    assert (answer.name, answer.params["arrivals"]) == ("capacity", "constant")


def test_no_index_has_a_parameter_called_as_a_term() -> None:
    conditions = {key for name in EXPERIMENTS for key in conditions_of(name)}
    taken = {
        (name, key)
        for name in registry.names()
        for index in registry.load(name).capabilities.indexes.values()
        for key in (*index.search.model_fields, *index.build.model_fields)
        if key in conditions
    }
    assert not taken
