"""What the experiments of this package say of their phases, and when."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiment_worlds import run
from painted_pictures import pictures
from small_experiments import QUICK, Small, check_telling, check_terms

from vectrial.compare.groups import terms_of
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.stores.sqlite.store import SqliteStore

SMALL = {
    "anomaly": Small(QUICK, data=pictures()),
    "index_pipeline": Small({"objects": "folder", "segment_rows": 200, "min_s": 0.0}, SqliteStore),
}


def test_every_experiment_is_here() -> None:
    assert {name for name in EXPERIMENTS if EXPERIMENTS.package(name) == "vectrial-reproduce"} == (
        SMALL.keys()
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_every_parameter_of_a_phase_is_a_term_or_a_setting(name: str, tmp_path: Path) -> None:
    check_terms(name, SMALL[name], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_nothing_is_asked_between_the_end_of_a_phase_and_its_telling(
    name: str, tmp_path: Path
) -> None:
    check_telling(name, SMALL[name], tmp_path)


def test_the_calibration_is_a_term_and_what_is_judged_untimed_has_no_cost(tmp_path: Path) -> None:
    small, last = SMALL["anomaly"], []
    for calibration in (0.3, 0.6):
        asked = EXPERIMENTS["anomaly"].model_validate({**small.params, "calibration": calibration})
        phases = run(asked, small.store, tmp_path, given=small.data)
        untold = {phase.name for phase in phases if phase.unsampled is not None}
        assert untold == {"class", "classes", "together"}
        terms = terms_of("anomaly")
        last.append({key: value for key, value in phases[-1].params.items() if key in terms})
    assert last[0] != last[1]
