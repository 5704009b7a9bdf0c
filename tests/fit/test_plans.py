"""The jobs of trials with limits of their own."""

from __future__ import annotations

import pytest

from vectrial.model.errors import UserError
from vectrial.model.placement import Limits
from vectrial.run.prepare import plan_of
from vectrial.suite.model import Suite
from vectrial.suite.validation import validate

MIB = 2**20


def plain(**experiment: object) -> dict[str, object]:
    return {
        "name": "limited",
        "repeats": 2,
        "datasets": [{"name": "clustered-16-2k"}],
        "stores": [{"store": "hnswlib", "index": "hnsw"}],
        "experiments": [{"experiment": "fit", **experiment}, {"experiment": "storage"}],
    }


def suite(**experiment: object) -> Suite:
    return validate(Suite, plain(**experiment), "limited.toml")


def test_every_trial_with_limits_has_a_job_of_its_own() -> None:
    plan = plan_of(suite(memory=["512MiB", "64MiB"], processors=[1, 0.5]), "limited.toml")
    limited = [job for job in plan.jobs if job.limits is not None]
    expected = [Limits(cpus, size * MIB) for size in (512, 64) for cpus in (1.0, 0.5)]
    assert sorted(map(str, (job.limits for job in limited))) == sorted(map(str, 2 * expected))
    assert all(len(job.trials) == 1 for job in limited)
    others = [job for job in plan.jobs if job.limits is None]
    assert [trial.experiment.name for job in others for trial in job.trials] == ["storage"] * 2


def test_a_step_of_a_search_is_a_trial_of_its_own() -> None:
    keys = {
        trial.row.key
        for step in (1, 2)
        for trial in plan_of(
            suite(memory="1GiB", step=step, purpose="confirm"), "limited.toml"
        ).trials
        if trial.experiment.name == "fit"
    }
    assert len(keys) == 4


@pytest.mark.parametrize("memory", ["lots", "0GiB", "5"])
def test_what_is_no_size_is_refused(memory: str) -> None:
    with pytest.raises(UserError, match="not a size with its unit"):
        plan_of(suite(memory=memory), "limited.toml")
