"""What is said of trials under limits, and of the steps of a search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from recorded_trials import recorded_phase, recorded_trial

from vectrial.analysis.fit import LimitsOutcome, LimitsPurpose, Trial, fit_of, verdict
from vectrial.model.trial import OVERDUE, PROCESS_ENDED, SERVER_ENDED, SERVER_SILENT, CheckResult

MIB = 2**20
HELD_TO = {"p99_ms": 20.0, "recall": 0.95, "error_share": 0.001, "rate": 200.0, "k": 10}
APPLIED = {"limits": "1 processors, 100 MiB: applied by control groups", "oom_kills": 0}


def trial(
    number: int = 1,
    purpose: str = "memory",
    memory: int = 100,
    cpus: float = 1.0,
    *,
    searched: dict[str, float] | None = None,
    ready_s: float = 5.0,
    **fields: Any,
) -> Trial:
    """One that holds, but for what is said."""
    usual = {"qps": 200.0, "count": 1000.0, "errors": 0.0, "latency_p99": 5e3, "recall_mean": 0.96}
    params = {**HELD_TO, "memory_bytes": memory * MIB, "cpus": cpus, "step": number}
    load = recorded_phase(2 * number, "load", {"ready_s": ready_s, "empty_rss_bytes": 10.0 * MIB})
    search = recorded_phase(2 * number + 1, "search", {**usual, **(searched or {})})
    more = {"params": {**params, "load_limit_s": 10.0, "purpose": purpose}, "server": APPLIED}
    return recorded_trial(number, load, search, **{"experiment": "fit", **more, **fields})


def ended(reason: str, **server: Any) -> Trial:
    """One that failed while it was loaded."""
    params = {**HELD_TO, "memory_bytes": 100 * MIB, "cpus": 1.0}
    return recorded_trial(
        1, experiment="fit", status="failed", reason=reason, params=params, server=server or None
    )


def failed_check(*, relevant: bool) -> CheckResult:
    return CheckResult("row count", False, "90 of 100", "all", "everything", relevant)


@pytest.mark.parametrize(
    ("found", "outcome", "why"),
    [
        (trial(), LimitsOutcome.HOLDS, ""),
        (trial(searched={"errors": 1.0}), LimitsOutcome.HOLDS, ""),
        (ended(f"{PROCESS_ENDED} with signal SIGKILL"), LimitsOutcome.KILLED, "SIGKILL"),
        (ended(f"{SERVER_ENDED} (log)"), LimitsOutcome.KILLED, "log"),
        (
            ended(PROCESS_ENDED, oom_kills=1, at="loading"),
            LimitsOutcome.KILLED,
            "1 process while loading",
        ),
        (
            ended(PROCESS_ENDED, oom_kills=1, at="warmup"),
            LimitsOutcome.KILLED,
            "1 process while searching",
        ),
        (
            ended("RuntimeError: full", oom_kills=2),
            LimitsOutcome.KILLED,
            "2 processes while loading",
        ),
        (trial(server={**APPLIED, "oom_kills": 1}), LimitsOutcome.KILLED, "ended 1 process"),
        (
            trial(server={"oom_kills": 1}, searched={"errors": 500.0}, status="failed"),
            LimitsOutcome.KILLED,
            "ended 1 process; 500 of 1,500 searches failed",
        ),
        (
            ended("redis ended with 1 before it was ready\nlog"),
            LimitsOutcome.REFUSED,
            "ended with 1",
        ),
        (
            ended("StoreError: the load was not taken whole"),
            LimitsOutcome.REFUSED,
            "not taken whole",
        ),
        (trial(searched={"errors": 9.0}), LimitsOutcome.REFUSED, "9 of 1,009 searches failed"),
        (
            trial(searched={"count": 0.0, "errors": 5.0}),
            LimitsOutcome.REFUSED,
            "5 of 5 searches failed",
        ),
        (ended(f"{OVERDUE} = 60"), LimitsOutcome.SLOW, "longer than the limit of 60 s"),
        (ended(f"{SERVER_SILENT} (log)"), LimitsOutcome.SLOW, "does not answer"),
        (trial(searched={"latency_p99": 20.1e3}), LimitsOutcome.SLOW, "p99 20.1 ms"),
        (trial(ready_s=10.5), LimitsOutcome.SLOW, "a load of 10.5 s, over 10 s"),
        (trial(searched={"recall_mean": 0.9499}), LimitsOutcome.WRONG, "recall 0.9499"),
        (
            trial(gate=(failed_check(relevant=True),), status="invalid"),
            LimitsOutcome.WRONG,
            "gate: row count: 90 of 100",
        ),
        (trial(gate=(failed_check(relevant=False),)), LimitsOutcome.HOLDS, ""),
        (
            trial(server={"limits": "1 processors: not applied: no groups"}),
            LimitsOutcome.UNKNOWN,
            "not applied",
        ),
    ],
)
def test_outcomes(found: Trial, outcome: LimitsOutcome, why: str) -> None:
    said = verdict(found)
    assert (said.outcome, said.holds) == (outcome, outcome is LimitsOutcome.HOLDS)
    assert why in said.why
    assert bool(said.why) is not said.holds


def test_searches_that_say_nothing_do_not_hold() -> None:
    load, search = trial().phases
    unsound = recorded_phase(3, "search", {"count": 1.0}, valid=False, reason="no truth")
    assert verdict(recorded_trial(1, load, unsound, params=trial().params)).why == "no truth"
    late = recorded_phase(
        3,
        "search",
        {name: value.value or 0.0 for name, value in search.metrics.items()},
        valid=False,
        reason="client-bound: it used 99 % of its processor",
    )
    assert verdict(recorded_trial(1, load, late, params=trial().params)).holds


def steps() -> list[Trial]:
    """A search that found 120 MiB and a half of a processor."""
    killed = {**APPLIED, "oom_kills": 1}
    confirming = [
        trial(n, LimitsPurpose.CONFIRM, 120, 0.5, searched={"qps": 100.0 + n}) for n in (7, 8, 9)
    ]
    return [
        trial(1, LimitsPurpose.WHOLE, 1000, 2.0),
        trial(2, LimitsPurpose.MEMORY, 60, 2.0, server=killed),
        trial(3, LimitsPurpose.MEMORY, 120, 2.0),
        trial(4, LimitsPurpose.MEMORY, 110, 2.0, server=killed),
        trial(5, LimitsPurpose.PROCESSORS, 120, 0.5),
        trial(6, LimitsPurpose.PROCESSORS, 120, 0.25, ready_s=20.0),
        *confirming,
    ]


def test_an_answer_with_what_is_just_below_it() -> None:
    found = fit_of(steps()[::-1])
    assert (found.memory_bytes, found.cpus) == (120 * MIB, 0.5)
    assert found.below_memory is not None
    assert found.below_memory.memory_bytes == 110 * MIB
    assert found.below_cpus is not None
    assert (found.below_cpus.cpus, found.below_cpus.verdict.outcome) == (0.25, LimitsOutcome.SLOW)
    qps = found.spread("qps")
    assert qps is not None
    assert (qps.median, qps.low, qps.high, qps.n) == (108.0, 107.0, 109.0, 3)
    assert found.spread("latency_p99") is not None
    assert found.contradictions == ()
    assert found.reason == ""
    assert found.raw_bytes == 100 * 8 * 4


def test_an_answer_that_did_not_hold_again_is_none() -> None:
    lost = trial(10, LimitsPurpose.CONFIRM, 120, 0.5, searched={"latency_p99": 1e6})
    found = fit_of([*steps(), lost])
    assert found.memory_bytes is found.cpus is found.below_memory is found.spread("qps") is None
    assert found.reason == "nothing was confirmed: at 126 MB, 0.5 processor: slow: p99 1.00 s"
    (first, *_) = found.contradictions
    assert "126 MB, 0.5 processor did not hold in step 10" in first


def test_a_step_that_says_nothing_is_none_that_confirms_or_contradicts() -> None:
    *before, one, two, three = steps()
    void = {"server": {"limits": "1 processors: not applied: no groups"}}
    spoilt = trial(8, LimitsPurpose.CONFIRM, 120, 0.5, **void)
    again = [
        replace(each, trial_id=n, params={**each.params, "step": n})
        for n, each in ((9, two), (10, three))
    ]
    found = fit_of([*before, one, spoilt, *again])
    assert [step.number for step in found.confirmed] == [7, 9, 10]
    assert found.contradictions == ()
    last = trial(10, LimitsPurpose.CONFIRM, 120, 0.5, **void)
    assert fit_of([*steps(), last]).confirmed == ()


def test_steps_that_a_resumed_search_does_not_have_are_left_out() -> None:
    """The first search was interrupted; the second went another way from step 4 on."""
    first = [
        trial(n, LimitsPurpose.CONFIRM, 500, 2.0, trial_id=n, key=f"first {n}")
        for n in (4, 5, 6, 20)
    ]
    again = [replace(one, trial_id=100 + one.trial_id) for one in steps()[3:]]
    found = fit_of([*steps()[:3], *first, *again])
    assert [step.number for step in found.steps] == list(range(1, 10))
    assert found.memory_bytes == 120 * MIB


def test_a_limit_that_holds_below_one_that_does_not_is_reported() -> None:
    once_more = trial(10, LimitsPurpose.BELOW, 110, 2.0)
    (said,) = fit_of([*steps(), once_more]).contradictions
    assert said.startswith("115 MB, 2 processors did not hold in step 4 (killed: out of memory")
    assert said.endswith("and 115 MB, 2 processors did in step 10")


def test_a_store_that_does_not_hold_at_all_has_the_reason() -> None:
    found = fit_of([trial(1, LimitsPurpose.WHOLE, 1000, 2.0, searched={"recall_mean": 0.5})])
    assert found.reason == "it does not hold with the whole machine: wrong: recall 0.5000"
