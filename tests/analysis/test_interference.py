"""What disturbed a run is said, with where and what to do; what did not is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_trials import recorded_phase, recorded_trial
from typer.testing import CliRunner

from vectrial.analysis import interference
from vectrial.analysis.run_data import RunData
from vectrial.analysis.trial import Trial
from vectrial.cli import capacity, tune
from vectrial.cli.app import app
from vectrial.questions.builds import TuneLimits
from vectrial.questions.capacity import CapacityAnswer
from vectrial.questions.finals import answer_of
from vectrial.report.sections import warnings as cautions

QUIET = {"other_cores": 0.1, "steal_share": 0.005, "throttled_share": 0.0, "cpu_mhz": 3000.0}
#: Of five repeats: a spread of about 1 %.
NOISE = (1.0, 1.01, 0.99, 1.005, 0.995)


def trial(
    repeat: int = 1,
    store: str = "redis",
    experiment: str = "search",
    phase: str = "search",
    *,
    seconds: float = 1.0,
    provider: str = "local",
    params: Mapping[str, Any] | None = None,
    **metrics: float,
) -> Trial:
    """One of one phase on a machine that is quiet but for what `metrics` say."""
    told = {**QUIET, "qps": 100.0, **metrics}
    number = trial.made = getattr(trial, "made", 0) + 1  # type: ignore[attr-defined]
    return recorded_trial(
        number,
        recorded_phase(number, phase, told, duration_s=seconds),
        store=store,
        experiment=experiment,
        params=params or {},
        repeat=repeat,
        server={"provider": provider},
    )


def run(trials: Sequence[Trial], processors: int = 2) -> RunData:
    about = {"environment": {"cpu": {"logical": processors}}, "finished_at": 1, "command": ""}
    return RunData(Path("run"), about, (), tuple(trials), {})


@pytest.mark.parametrize(
    ("metrics", "says"),
    [
        ({"other_cores": 0.64}, "Up to 0.6 of 2 processors were busy with something else"),
        ({"steal_share": 0.08}, "Other guests of the host took up to 8% of the processors (steal)"),
        ({"throttled_share": 0.3}, "The processor quota was used up for up to 30% of a phase"),
        ({"cpu_mhz": 1500.0}, "clock fell from 3,000 to 1,500 MHz between repeats"),
    ],
)
def test_what_the_machine_did_is_said_with_where_and_a_remedy(
    metrics: dict[str, float], says: str
) -> None:
    quiet = [trial(1), trial(2, store="milvus"), trial(3)]
    assert interference.sentences(run(quiet)) == []
    (found,) = interference.sentences(run([*quiet, trial(4, **metrics)]))
    assert says in found
    assert ", in 1 of " in found
    assert "(redis search, repeat 4): " in found, "where, then the remedy"
    assert found in cautions.warnings(run([*quiet, trial(4, **metrics)]))


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(trial(other_cores=0.2), id="a tenth of the processors is not beyond it"),
        pytest.param(trial(other_cores=0.24, seconds=0.2), id="five steps of the clock"),
        pytest.param(trial(steal_share=0.01), id="one per cent is not beyond it"),
        pytest.param(trial(steal_share=0.016, seconds=0.3), id="one step of the kernel's clock"),
        pytest.param(trial(other_cores=1.5, provider="external"), id="it may be the server"),
        pytest.param(
            trial(experiment="storage", phase="settled", qps=0.0, cpu_mhz=800.0),
            id="who waits lets the processors sleep",
        ),
        pytest.param(trial(phase="read", cpu_mhz=800.0), id="other work is no repeat"),
    ],
)
def test_a_quiet_machine_alarms_nobody(one: Trial) -> None:
    others = [trial(2), trial(2, experiment="storage", phase="settled", qps=0.0)]
    assert interference.sentences(run([one, *others])) == []


def test_a_machine_of_more_processors_bears_more_beside() -> None:
    assert interference.sentences(run([trial(other_cores=0.64)], processors=2))
    assert not interference.sentences(run([trial(other_cores=0.64)], processors=16))


def test_a_few_places_are_named_the_worst_first_and_the_rest_counted() -> None:
    names = [f"store{i}" for i in range(6)]
    (found,) = interference.sentences(
        run([trial(store=name, steal_share=0.03 + 0.01 * i) for i, name in enumerate(names)])
    )
    assert "up to 8%" in found
    assert "in 6 of 6 phases (store5 search; store4 search; store3 search" in found
    assert "; and 3 more)" in found


def test_a_place_is_named_by_what_tells_it_from_others() -> None:
    efs = [trial(params={"ef_search": ef, "k": 10}) for ef in (64, 128)]
    (found,) = interference.sentences(
        run([*efs, trial(params={"ef_search": 256, "k": 10}, other_cores=1.0)])
    )
    assert "(redis search at ef_search=256): " in found


def test_the_load_average_counts_only_where_nothing_better_is_known() -> None:
    """Client and server are in it: on two cores that they share it is high in a quiet run."""
    loaded = [trial(load_1m=9.0)]
    assert not any("load average" in told for told in cautions.warnings(run(loaded)))
    outside = [trial(load_1m=9.0, provider="external")]
    assert any("load average" in told for told in cautions.warnings(run(outside)))


def figures(*speeds: float, store: str = "redis", settings: int = 3) -> list[Trial]:
    """A repeat for each speed, of a sweep over some settings and a load."""
    made = []
    for repeat, speed in enumerate(speeds, 1):
        made += [
            trial(repeat, store, qps=speed * 100 * ef, params={"ef_search": ef})
            for ef in range(1, settings + 1)
        ]
        made.append(trial(repeat, store, "ingest", "ingest", qps=0.0, ready_s=10 / speed))
    return made


@pytest.mark.parametrize(
    ("speeds", "says"),
    [
        ((1.0, 0.95, 0.9, 0.86, 0.8), "falls steadily over the repeats, by 19% in all"),
        ((1.0, 1.05, 1.1, 1.15, 1.2), "rises steadily over the repeats, by 20% in all"),
        ((1.0, 1.01, 0.7, 1.005, 0.995), "repeat 3 stands out by 30%"),
        ((0.6, 1.01, 0.99, 1.005, 0.995), "the first repeat stands out"),
    ],
)
def test_repeats_that_are_not_alike_are_said(speeds: Sequence[float], says: str) -> None:
    (found,) = interference.sentences(run([*figures(*speeds), *figures(*NOISE, store="milvus")]))
    assert found.startswith(f"Repeats are not alike, all figures together (redis: {says}): ")
    four = interference.sentences(run(figures(*speeds[:4])))
    assert four == [], "of fewer than five nothing is said"


def test_stores_of_the_same_drift_are_told_together() -> None:
    falling = (1.0, 0.95, 0.9, 0.86, 0.8)
    (found,) = interference.sentences(run([*figures(*falling), *figures(*falling, store="milvus")]))
    assert "(redis: falls steadily" in found
    assert "; milvus: falls steadily" in found


def test_a_single_figure_is_told_where_a_repeat_is_far_away() -> None:
    near = [*figures(*NOISE), *(trial(r, phase="read", qps=q) for r, q in enumerate(NOISE, 1))]
    assert interference.sentences(run(near)) == []
    slow = [*NOISE[:3], 0.3, NOISE[4]]
    far = [*figures(*NOISE, settings=20)]
    far += [trial(r, phase="read", qps=q) for r, q in enumerate(slow, 1)]
    (found,) = interference.sentences(run(far))
    assert found.startswith("1 repeat of 22 figures stands out by up to 70%")
    assert "(redis search read, repeat 4)" in found, "of a trial with no setting"


@pytest.mark.slow
def test_noise_alarms_seldom() -> None:
    """Figures that spread by 6 %, as on two cores of a virtual machine, of five stores."""
    rng = np.random.default_rng(3)
    alarms = 0
    for _ in range(20):
        trials: list[Trial] = []
        for store in ("a", "b", "c", "d", "e"):
            for name in map(str, range(8)):
                noise = rng.lognormal(0, 0.06, 5)
                trials += [trial(r, store, "crud", name, qps=q) for r, q in enumerate(noise, 1)]
        alarms += bool(interference.sentences(run(trials)))
    assert alarms <= 2


@pytest.mark.parametrize("command", ["capacity", "tune"])
def test_capacity_and_tune_say_it_at_their_end(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = run([trial(other_cores=1.4)])
    found = CapacityAnswer(tmp_path, busy, ())
    settings = answer_of([], TuneLimits(0.95), tmp_path)
    monkeypatch.setattr(capacity, "find_capacity", lambda *_, **__: found)
    monkeypatch.setattr(tune, "find_settings", lambda *_, **__: settings)
    monkeypatch.setattr(tune, "load", lambda _: busy)
    asked = [command, "hnswlib", "--dataset", "clustered-16-2k", "--out", str(tmp_path / "runs")]
    done = CliRunner().invoke(app, asked)
    assert "! Up to 1.4 of 2 processors were busy with something else" in done.stderr, done.output
    assert "processors were busy" not in done.stdout
