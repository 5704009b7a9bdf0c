"""What is compared and what is not: every reason, and curves that are never left."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from compared_runs import ALONE, NOISE, SECOND, Made

from vectrial.compare import document
from vectrial.compare.build import Comparison, compare, metrics_of
from vectrial.compare.cells import CompareOptions
from vectrial.compare.judge import Verdict
from vectrial.compare.sides import Side, pair
from vectrial.model.phase import Phase, Role
from vectrial.stats.verdict import VerdictKind


def of_runs(a: Made, b: Made, *metrics: str, **asked: object) -> Comparison:
    """Two runs, compared."""
    sides = Side(a.data("a")), Side(b.data("b"))
    names = metrics_of(metrics or ("p99",))
    return compare(*sides, CompareOptions(names, **asked), 0.05)  # type: ignore[arg-type]


def one(comparison: Comparison) -> Verdict:
    """The only verdict there is."""
    (verdict,) = comparison.verdicts
    return verdict


def repeats(
    metrics: Callable[[float], dict[str, float | None]],
    made: Made | None = None,
    noise: Sequence[float] = NOISE,
    **trial: Any,
) -> Made:
    """A trial for each repeat, with the metrics that its factor of noise gives."""
    made = made or Made()
    for repeat, factor in enumerate(noise, 1):
        made.trial(repeat=repeat, metrics=metrics(factor), **trial)
    return made


def loaded(durability: str = "synced") -> Made:
    return repeats(
        lambda factor: {"ready_s": 10 * factor, "build_s": None},
        experiment="ingest", phase="ingest",
        params={"durability": durability, "concurrency": 1}, phase_params={"batch_rows": 100},
    )  # fmt: skip


def at_rate(rate: float, latency: float = 1.0, recall: float = 0.95) -> Made:
    """Of an open loop."""
    return repeats(
        lambda factor: {
            "recall_mean": recall, "qps": rate, "latency_p99": latency * factor * 1e3,
        },
        experiment="search", params={"rate": rate, "ef_search": 64},
        phase_params={"rate": rate, "loop": "open", "arrivals": "poisson"},
    )  # fmt: skip


def concurrent(*clients: int, lost: int | None = None) -> Made:
    """Five repeats at each number of clients, which the trial itself tells; of `lost`, none came
    through."""
    made = Made()
    for repeat, factor in enumerate(NOISE, 1):
        for one in clients:
            metrics = {"recall_mean": 0.95, "qps": 100 * factor, "latency_p99": 1e4 / factor}
            made.trial(
                experiment="search", repeat=repeat, params={"clients": one},
                phase_params={"loop": "closed", "clients": one},
                **({"status": "failed", "reason": "no space"} if one == lost else {}),
                metrics=None if one == lost else metrics,
            )  # fmt: skip
    return made


def changing(mix: str) -> Made:
    """Searches while rows change."""
    return repeats(
        lambda factor: {"recall_mean": 0.95, "qps": 100 * factor, "latency_p99": 1e4 / factor},
        experiment="mixed", phase_params={**ALONE, "mix": mix},
    )  # fmt: skip


def sustained(
    rate: float = 1000.0,
    p99_ms: float = 20.0,
    recall: float = 0.952,
    arrivals: str = "poisson",
) -> Made:
    """Five answers of `capacity`, each after looks at rates of its own."""
    made = Made()
    for repeat, factor in enumerate(NOISE, 1):
        made.trial(
            experiment="capacity", phase="capacity", repeat=repeat, before=looks(rate * factor),
            phase_params={
                "p99_ms": p99_ms, "recall": 0.95, "error_share": 0.001,
                "recall_parameter": "ef_search",
                "arrivals": arrivals,
            },
            metrics={
                "sustained_qps": rate * factor, "qps": rate * factor, "latency_p99": 1e4 * factor,
                "recall_mean": recall,
            },
        )  # fmt: skip
    return made


def looks(rate: float) -> list[Phase]:
    """One pass of one caller, then a look at a rate."""
    metrics: dict[str, float | None] = {"recall_mean": 0.95, "qps": rate, "latency_p99": 1e4}
    tried = {"rate": rate, "loop": "open", "step": 1, "purpose": "narrow", "passed": True}
    return [
        Phase("recall", 0, SECOND, {**ALONE, "ef_search": 40}, metrics, role=Role.STEP),
        Phase("rate", 0, SECOND, {**tried, "ef_search": 40}, dict(metrics), role=Role.STEP),
    ]


def changed(**facts: object) -> Made:
    return Made(dataset=facts).sweep()


def with_one_more(**trial: object) -> Made:
    """A sweep of which one more repeat of every point went as told."""
    made = Made().sweep()
    for ef in (10, 40, 160):
        asked = {"params": {"ef_search": ef}, "phase_params": ALONE}
        metrics = {"recall_mean": 0.9, "qps": 1.0, "latency_p99": 1.0}
        made.trial(repeat=6, **{"metrics": metrics, **asked, **trial})  # type: ignore[arg-type]
    return made


def versus(**change: Any) -> tuple[Made, Made]:
    """A sweep, and another that differs in this."""
    return Made().sweep(), Made().sweep(**change)


CLIENT = "client-bound: 97 % of its processor time used"
SEARCHING, WRITING = "90 % search + 10 % insert", "60 % search + 40 % insert"
NO_RECALL = "no recall that both reach: A"
#: Runs A and B, the metric, and why it is not compared.
REASONS: list[tuple[Callable[[], tuple[Made, Made]], str, str]] = [
    (lambda: (changed(), changed(fingerprint="beef")), "p99", "different data"),
    (lambda: (changed(), changed(queries=50)), "p99", "different queries: 100 in A"),
    (lambda: versus(rows=2000), "p99", "1,000 in A, 2,000 in B"),
    (lambda: versus(params={"k": 20}), "p99", "different k: 10 in A, 20 in B"),
    (
        lambda: versus(params={"returns": "metadata"}),
        "p99",
        "different what is returned: ids in A, metadata in B",
    ),
    (lambda: versus(lane="sdk"), "p99", "different lane: native in A, sdk in B"),
    (
        lambda: (loaded(), loaded("buffered")),
        "ready_s",
        "different durability: synced in A, buffered in B",
    ),
    (lambda: (concurrent(1), concurrent(4)), "p99", "different clients: 1 in A, 4 in B"),
    (
        lambda: (changing(SEARCHING), changing(WRITING)),
        "p99",
        f"different mix of operations: {SEARCHING} in A, {WRITING}",
    ),
    (
        lambda: (sustained(p99_ms=10.0), sustained(p99_ms=50.0)),
        "sustained_qps",
        "different p99 limit (ms): 10.0 in A, 50.0 in B",
    ),
    (
        lambda: (sustained(), sustained(arrivals="constant")),
        "sustained_qps",
        "different arrivals: poisson in A, constant in B",
    ),
    (lambda: (at_rate(100), at_rate(200)), "p99", "offered load: 100/s in A, 200/s in B"),
    (lambda: (Made().sweep(), with_one_more(invalid=CLIENT)), "p99", f"B: {CLIENT}"),
    (
        lambda: (with_one_more(wrong=True), Made().sweep()),
        "p99",
        "A: gate failed: scores_agree: 0.31, recomputed 0.87",
    ),
    (
        lambda: (Made().sweep(), with_one_more(invalid="overloaded: 40 %")),
        "p99",
        "B: invalid: overloaded: 40 %",
    ),
    (
        lambda: (Made().sweep(), with_one_more(metrics=None, status="failed", reason="no space")),
        "p99",
        "B: failed: no space",
    ),
    (
        lambda: versus(recalls={10: 0.5, 40: 0.7}),
        "p99",
        f"{NO_RECALL} 0.8800–0.9950, B 0.5000–0.7000",
    ),
    (lambda: (at_rate(100), at_rate(100, recall=0.9)), "p99", f"{NO_RECALL} 0.9500, B 0.9000"),
    (lambda: (loaded(), loaded()), "build_s", "A has no build_s: it was not told"),
    (
        lambda: (Made().sweep(noise=(1, 1.1)), Made().sweep(recalls={40: 0.96})),
        "p99",
        "2 repeats: a verdict needs 3",
    ),
    (lambda: (loaded(), at_rate(100)), "ready_s", "not measured in B"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "metric", "said"), REASONS, ids=[said for *_, said in REASONS])
def test_every_reason_not_to_compare_is_told(
    make: Callable[[], tuple[Made, Made]], metric: str, said: str
) -> None:
    verdict = one(of_runs(*make(), metric))
    assert verdict.kind is VerdictKind.NOT_COMPARABLE
    assert said in verdict.reason


def test_every_term_that_differs_is_told() -> None:
    other = Made().sweep(params={"k": 20, "returns": "vectors"}, lane="sdk")
    reason = one(of_runs(Made().sweep(), other)).reason
    assert [part.split(":")[0] for part in reason.split("; ")] == [
        "different lane",
        "different k",
        "different what is returned",
    ]


def test_at_equal_recall_each_repeat_lies_on_its_own_curve() -> None:
    """B needs another ef for the same recall; both are looked at between measured points."""
    a = Made().sweep(recalls={10: 0.90, 40: 0.98})
    b = Made().sweep(recalls={20: 0.90, 80: 0.98})
    found = of_runs(a, b, "qps", recalls=(21 / 22,))  # odds of 21: between 9 and 49
    verdict = one(found)
    assert verdict.kind is VerdictKind.WORSE
    assert verdict.effect is not None
    assert verdict.effect.ratio == pytest.approx(0.5)
    assert verdict.mean_a is not None
    assert verdict.mean_a.value == pytest.approx(500, rel=0.01), "half way from 1000 to 250"


def test_beyond_what_one_side_reached_nothing_is_said() -> None:
    b = Made().sweep(recalls={10: 0.92, 160: 0.97})
    found = of_runs(Made().sweep(), b, "qps", recalls=(0.9, 0.95, 0.99))
    assert [(v.cell.at, v.kind) for v in found.verdicts] == [
        ("recall 0.9", VerdictKind.NOT_COMPARABLE),
        ("recall 0.95", VerdictKind.WORSE),
        ("recall 0.99", VerdictKind.NOT_COMPARABLE),
    ]
    assert "A 0.8800–0.9950, B 0.9200–0.9700" in found.verdicts[0].reason
    (default,) = of_runs(Made().sweep(), b, "qps").verdicts
    assert default.cell.at == "recall 0.95", "the targets that both reach"


def test_where_no_target_is_reached_the_highest_common_recall_is_taken() -> None:
    low = {10: 0.6, 40: 0.8}
    found = of_runs(Made().sweep(recalls=low), Made().sweep(recalls=low))
    assert one(found).cell.at == "recall 0.8"


def test_at_equal_load_points_are_compared_as_they_are() -> None:
    found = of_runs(at_rate(100), at_rate(100, 1.3, recall=0.952), "p99", "qps")
    verdict = one(found)
    assert verdict.kind is VerdictKind.WORSE, "and the rate that was offered is no result"
    assert verdict.cell.terms["rate"] == 100


def test_a_store_that_recalls_less_is_worse_in_recall() -> None:
    a, b = at_rate(100, recall=0.95), at_rate(100, recall=0.80)
    assert one(of_runs(a, b, "recall")).kind is VerdictKind.WORSE


def test_a_point_that_is_unsound_is_left_out_of_the_curve_and_told() -> None:
    b = Made().sweep()
    metrics = {"recall_mean": 0.88, "qps": 1.0, "latency_p99": 1.0}
    b.trial(
        repeat=6, params={"ef_search": 10}, phase_params=ALONE, metrics=metrics,
        invalid="overloaded: 40 %",
    )  # fmt: skip
    found = of_runs(Made().sweep(), b, "qps", recalls=(0.9, 0.98))
    assert [v.kind for v in found.verdicts] == [VerdictKind.NOT_COMPARABLE, VerdictKind.TIE]
    assert any("left out: invalid: overloaded" in caveat for caveat in found.caveats)


@pytest.mark.slow
def test_disks_that_are_the_same_every_time_differ_exactly() -> None:
    def sized(size: float) -> Made:
        return repeats(
            lambda _: {"disk_bytes": size}, noise=(1, 1, 1), experiment="storage",
            phase="footprint",
        )  # fmt: skip

    assert one(of_runs(sized(100), sized(120), "disk")).kind is VerdictKind.WORSE
    assert one(of_runs(sized(100), sized(100), "disk")).kind is VerdictKind.TIE
    assert one(of_runs(sized(0), sized(0), "disk")).kind is VerdictKind.TIE
    verdict = one(of_runs(sized(0), sized(5), "disk"))
    assert (verdict.kind, verdict.reason) == (
        VerdictKind.NOT_COMPARABLE,
        "a value of 0 has no ratio",
    )
    less = one(of_runs(sized(-1), sized(5), "disk"))
    assert less.reason == "a value of less than 0 has no ratio"


def test_noisy_repeats_decide_nothing_and_say_what_they_could_have_seen() -> None:
    noisy = (1.0, 1.4, 0.7, 1.2, 0.8)
    verdict = one(of_runs(Made().sweep(noise=noisy), Made().sweep(noise=noisy), recalls=(0.95,)))
    assert verdict.kind is VerdictKind.UNDECIDED
    assert verdict.minimum is not None
    assert verdict.minimum > 0.3
    assert verdict.more is None
    assert verdict.reason.endswith("more than 100 more repeats would be needed")


def test_an_undecided_difference_comes_with_the_repeats_that_decide_it() -> None:
    noisy = (1.0, 1.4, 0.7, 1.2, 0.8)
    a, b = Made().sweep(noise=noisy), Made().sweep(noise=noisy, speed=0.7)
    comparison = of_runs(a, b, recalls=(0.95,))
    verdict = one(comparison)
    assert verdict.kind is VerdictKind.UNDECIDED
    assert verdict.more is not None
    assert f"about {verdict.more} more repeats" in verdict.reason
    (advice,) = comparison.advice
    assert f"--repeats {5 + verdict.more}" in advice
    enough = [factor for _ in range(4 * verdict.more) for factor in noisy][: 5 + verdict.more]
    a, b = Made().sweep(noise=enough), Made().sweep(noise=enough, speed=0.7)
    assert one(of_runs(a, b, recalls=(0.95,))).kind is VerdictKind.WORSE


def test_the_change_is_the_ratio_of_the_two_figures_beside_it() -> None:
    a = Made().sweep(noise=(1.0, 1.0, 5.0))
    b = Made().sweep(noise=(0.9, 3.0, 3.0))
    verdict = one(of_runs(a, b, recalls=(0.95,)))
    assert verdict.mean_a is not None
    assert verdict.mean_b is not None
    assert verdict.change == pytest.approx(verdict.mean_b.value / verdict.mean_a.value - 1)


def test_a_difference_is_a_tie_where_its_interval_lies_within_the_threshold() -> None:
    quiet = (1.0, 1.001, 0.999, 1.0005, 0.9995)
    a, b = Made().sweep(noise=quiet), Made().sweep(noise=quiet, speed=0.97)
    verdict = one(of_runs(a, b, recalls=(0.95,)))
    assert verdict.kind is VerdictKind.TIE
    assert verdict.p_adjusted is not None
    assert verdict.p_adjusted < 0.05, "they differ, by less than anybody asks for"
    wider = (1.0, 1.02, 0.98, 1.01, 0.99)
    a, b = Made().sweep(noise=wider), Made().sweep(noise=wider, speed=0.965)
    near = one(of_runs(a, b, recalls=(0.95,)))
    assert near.kind is VerdictKind.UNDECIDED
    assert near.reason.startswith("worse, but perhaps by less than 0.05 of A")
    assert verdict.minimum is not None
    assert 0.05 < verdict.minimum < 0.06, "one of just the threshold is as often seen below it"


def test_pairs_see_through_a_drift_that_both_stores_share() -> None:
    drift = tuple(1.25**i for i in range(6))
    wobble = tuple(1 + 0.004 * (-1) ** i for i in range(6))
    made = Made().sweep("redis", noise=drift)
    made.sweep("milvus", noise=[d * w * 0.9 for d, w in zip(drift, wobble, strict=True)])
    run = made.data()
    sides = pair(run, "redis", run, "milvus")
    verdict = one(compare(*sides, CompareOptions(metrics_of(["qps"]), (0.95,)), 0.05))
    assert verdict.effect is not None
    assert verdict.effect.paired
    assert verdict.kind is VerdictKind.WORSE


def turns(drift: float = 1.25, slower: float = 0.9) -> tuple[Made, Made]:
    """Six repeats of two runs on a machine that becomes faster and faster."""
    a, b = Made(), Made()
    wobble = [1 + 0.004 * (-1) ** i for i in range(6)]
    a.sweep(noise=[drift**i for i in range(6)])
    b.sweep(noise=[drift**i * w * slower for i, w in enumerate(wobble)])
    return a, b


def test_two_runs_that_took_turns_are_compared_in_pairs() -> None:
    a, b = turns()
    after = one(of_runs(a, b, "qps", recalls=(0.95,)))
    a, b = turns()
    b.began = a.began + timedelta(seconds=20)
    for record in b.records:
        record.started_at = b.began + timedelta(minutes=record.row.repeat)
    between = one(of_runs(a, b, "qps", recalls=(0.95,)))
    assert after.effect is not None
    assert between.effect is not None
    assert [after.effect.paired, between.effect.paired] == [False, True]
    assert (after.kind, between.kind) == (VerdictKind.UNDECIDED, VerdictKind.WORSE)


def at_paces(paces: Sequence[float], speed: float = 1.0, **more: object) -> Made:
    """Five repeats of a search, each by a machine of a pace of its own."""
    made = Made()
    for repeat, (pace, factor) in enumerate(zip(paces, NOISE, strict=True), 1):
        metrics = {
            "recall_mean": 0.95, "qps": 1000 * speed * factor / pace, "cpu_us_per_op": 20 * pace,
        }  # fmt: skip
        params = {"ef_search": 64, "clients": 1, "loop": "closed"}
        made.trial(repeat=repeat, metrics=metrics, params=params, **more)  # type: ignore[arg-type]
    return made


_SLOW, _SLOWER = (1.0, 1.2, 1.1, 1.3, 1.15), (1.3, 1.45, 1.2, 1.5, 1.4)


def test_a_slower_machine_is_no_slower_store() -> None:
    made = at_paces(_SLOW), at_paces(_SLOWER)
    verdict = one(of_runs(*made, "qps"))
    assert verdict.kind is VerdictKind.TIE
    assert verdict.effect is not None
    assert verdict.effect.at_pace
    assert verdict.change == pytest.approx(0.0, abs=0.02)
    assert verdict.measured == pytest.approx(-0.16, abs=0.02)
    assert "at equal pace of the machine; -1" in verdict.reason
    verdict = one(of_runs(at_paces(_SLOW), at_paces(_SLOWER, 0.9), "qps"))
    assert verdict.kind is VerdictKind.WORSE
    assert verdict.change == pytest.approx(-0.1, abs=0.02)


@pytest.mark.parametrize("other", [{"lane": "sdk"}, {"version": "2.0"}])
def test_where_the_client_may_do_other_work_its_time_tells_no_pace(other: dict[str, str]) -> None:
    made = at_paces(_SLOW), at_paces(_SLOWER)
    for run, records in enumerate(one.records for one in made):
        for record in records:
            if "lane" in other:
                record.row = replace(record.row, lane=other["lane"])
            elif run:
                record.store_version = other["version"]
    verdict = one(of_runs(*made, "qps"))
    assert verdict.effect is not None
    assert not verdict.effect.at_pace
    assert verdict.measured is None


def test_recall_has_no_pace() -> None:
    verdict = one(of_runs(at_paces(_SLOW), at_paces(_SLOWER), "recall"))
    assert verdict.measured is None


def test_what_the_machine_did_is_told_with_a_remedy() -> None:
    busy = Made(environment={"cpu": {"logical": 2, "model": "slow"}})
    for repeat, factor in enumerate(NOISE, 1):
        metrics = {
            "ready_s": factor, "other_cores": 1.4, "steal_share": 0.08, "throttled_share": 0.3,
            "cpu_mhz": 3000.0 if repeat < 3 else 1500.0,
        }  # fmt: skip
        busy.trial(experiment="ingest", phase="ingest", repeat=repeat, metrics=metrics)
    quiet = Made(environment={"cpu": {"logical": 2, "model": "fast"}})
    for repeat, factor in enumerate((*NOISE[:4], 3.0), 1):
        metrics = {"ready_s": factor, "other_cores": 0.0}
        quiet.trial(experiment="ingest", phase="ingest", repeat=repeat, metrics=metrics)
    said = " ".join(of_runs(busy, quiet, "ready_s").caveats)
    for part in (
        "machines differ in processor: slow and fast", "1.4 of 2 processors were busy",
        "took up to 8% of the processors (steal)", "throttling", "from 3,000 to 1,500 MHz",
        "repeat 5 stands out",
    ):  # fmt: skip
        assert part in said
    assert "redis hnsw, B: up to" not in said


def test_where_a_side_failed_altogether_that_is_the_reason() -> None:
    """What its phases would have told of the load is not known, and is no difference."""
    failed = Made().sweep(metrics=None, status="failed", reason="no space")
    for a, b, said in (
        (Made().sweep(), failed, "B: failed: no space"),
        (failed, Made().sweep(), "A: failed: no space"),
    ):
        verdict = one(of_runs(a, b, "qps", "p99"))
        assert (verdict.kind, verdict.reason) == (VerdictKind.NOT_COMPARABLE, said)
        assert verdict.cell.terms["clients"] == 1, "the terms of the side that has some"


def test_a_term_that_the_trial_tells_keeps_what_failed_apart() -> None:
    found = of_runs(concurrent(1, 4), concurrent(1, 4, lost=4), "qps")
    told = {v.cell.terms["clients"]: (v.kind, v.reason) for v in found.verdicts}
    assert told[1][0] is VerdictKind.TIE
    assert told[4] == (VerdictKind.NOT_COMPARABLE, "B: failed: no space")
    other = one(of_runs(concurrent(1), concurrent(4, lost=4), "qps"))
    assert other.reason == "different clients: 1 in A, 4 in B; B: failed: no space"


def test_one_that_left_nothing_stands_for_every_phase_it_would_have_had() -> None:
    def weighed(lost: bool) -> Made:
        made = Made()
        for repeat in (1, 2, 3):
            if lost:
                made.trial(experiment="storage", repeat=repeat, status="failed", reason="no space")
                continue
            for name in ("acknowledged", "settled"):
                metrics = {"disk_bytes": 5.0}
                made.trial(experiment="storage", phase=name, repeat=repeat, metrics=metrics)
        return made

    for sides, said in (
        ((weighed(True), weighed(False)), "A: failed: no space"),
        ((weighed(False), weighed(True)), "B: failed: no space"),
    ):
        found = of_runs(*sides, "disk")
        told = [(v.cell.phase, v.reason) for v in found.verdicts]
        assert told == [("acknowledged", said), ("settled", said)]


def test_a_phase_that_a_failed_trial_did_not_come_to_is_not_judged_without_it() -> None:
    def operations(*, failing: bool) -> Made:
        made = Made()
        for name in ("create", "update"):
            repeats(
                lambda factor: {"latency_p99": 10 * factor}, made, experiment="crud", phase=name
            )
        if failing:
            made.trial(
                experiment="crud", phase="create", repeat=6, metrics={"latency_p99": 10.0},
                status="failed", reason="no space",
            )  # fmt: skip
        return made

    found = of_runs(operations(failing=False), operations(failing=True))
    assert [(v.cell.phase, v.reason) for v in found.verdicts] == [
        ("create", "B: failed: no space"),
        ("update", "B: failed: no space"),
    ]


def test_what_a_side_never_came_to_is_told_with_why() -> None:
    def p99(factor: float) -> dict[str, float | None]:
        return {"latency_p99": 10 * factor}

    a = repeats(p99, experiment="crud", phase="update")
    b = repeats(p99, experiment="crud", phase="create", status="failed", reason="no space")
    update, create = of_runs(a, b).verdicts
    assert update.reason == "not measured in B; B: failed: no space"
    assert (create.reason, create.cell.side) == ("not measured in A", "b")


def test_each_predicate_is_compared_with_itself() -> None:
    """An easy filter on one side and a hard one on the other are no curve of one question."""

    def filtered(**slower: float) -> Made:
        made = Made()
        kinds = {"aligned": (0.99, 900.0), "independent": (0.93, 400.0), "opposed": (0.6, 100.0)}
        for predicate, (recall, qps) in kinds.items():
            speed = qps * slower.get(predicate, 1)
            filters = {"predicate": predicate, "selectivity": 0.1, "payload_index": "on"}
            repeats(
                lambda factor, recall=recall, speed=speed: {
                    "recall_mean": recall, "qps": speed * factor,
                },
                made, experiment="filtered", params={"payload_index": "on"},
                phase_params=ALONE | filters,
            )  # fmt: skip
        return made

    found = of_runs(filtered(), filtered(independent=0.5), "qps")
    assert {v.cell.terms["predicate"]: v.kind for v in found.verdicts} == {
        "aligned": VerdictKind.TIE,
        "independent": VerdictKind.WORSE,
        "opposed": VerdictKind.TIE,
    }


def test_fused_rankings_meet_at_equal_weight_and_agreement() -> None:
    def hybrid(index: int, speed: float, agreement: float) -> Made:
        made = Made()
        for alpha, agreed in ((0.0, 0.9), (0.5, agreement)):
            repeats(
                lambda factor, agreed=agreed: {"fusion_agreement": agreed, "qps": speed * factor},
                made, experiment="hybrid", index={"m": index},
                phase_params={**ALONE, "alpha": alpha, "fusion": "rrf"},
            )  # fmt: skip
        return made

    found = of_runs(hybrid(16, 100, 0.99), hybrid(32, 150, 0.8), "qps")
    text, both = found.verdicts
    assert (text.cell.terms["alpha"], text.kind) == (0.0, VerdictKind.BETTER)
    assert (both.kind, both.reason) == (
        VerdictKind.NOT_COMPARABLE,
        "no recall that both reach: A 0.9900, B 0.8000",
    )
    named = of_runs(hybrid(16, 100, 0.99), hybrid(32, 150, 0.8), "fusion_agreement")
    assert [v.kind for v in named.verdicts] == [VerdictKind.TIE, VerdictKind.WORSE]


def test_how_long_turns_last_matters_to_turns_alone() -> None:
    def moved(seconds: float) -> Made:
        made = Made()
        for name, own in (("put", {"batch_rows": 100}), ("mixed", {"mixed_rows": 7})):
            repeats(
                lambda factor: {"qps": 100 * factor}, made, experiment="transport", phase=name,
                phase_params=own, params={"clients": 1, "mixed_s": seconds},
            )  # fmt: skip
        return made

    put, mixed = of_runs(moved(5.0), moved(20.0), "qps").verdicts
    assert put.kind is VerdictKind.TIE
    assert mixed.reason == "different seconds by turns: 5.0 in A, 20.0 in B"


def test_an_answer_of_capacity_is_compared_by_what_is_sustained_alone() -> None:
    """Both kept one floor of recall, which is the question; looks on the way are no figures, and
    latency at two loads says nothing."""
    metrics = ("qps", "p99", "recall", "sustained_qps")
    found = of_runs(sustained(), sustained(1300, recall=0.961), *metrics)
    verdict = one(found)
    assert verdict.cell.metric is not None
    assert (verdict.cell.metric.name, verdict.kind) == ("sustained_qps", VerdictKind.BETTER)
    broken = sustained()
    broken.trial(
        experiment="capacity", repeat=6, before=looks(900), status="failed", reason="no space"
    )
    assert one(of_runs(sustained(), broken, *metrics)).reason == "B: failed: no space"


def test_a_repeat_whose_low_points_are_beaten_is_not_left_out() -> None:
    """Noise at the low end of a curve: whoever asks for 0.9 is served by the setting above."""
    made = Made()
    for repeat, factor in enumerate(NOISE, 1):
        for ef, recall in {10: 0.88, 20: 0.93, 160: 0.99}.items():
            p99 = 300.0 * ef * factor
            if ef == 10 and repeat in (2, 4):
                p99 = 300.0 * 20 * factor * 1.1
            metrics = {"recall_mean": recall, "latency_p99": p99}
            made.trial(repeat=repeat, params={"ef_search": ef}, phase_params=ALONE, metrics=metrics)
    verdict = one(of_runs(made, made, "p99", recalls=(0.9,)))
    assert sorted(verdict.cell.a) == [1, 2, 3, 4, 5]
    assert verdict.cell.a[2] == pytest.approx(6000 * NOISE[1])
    assert 3000 < verdict.cell.a[1] < 6000


def test_repeats_without_a_value_are_not_left_out() -> None:
    """A row that was never found is slower than any that was."""

    def fresh(*lost: int) -> Made:
        made = Made()
        for repeat, factor in enumerate(NOISE, 1):
            value = None if repeat in lost else 10 * factor
            metrics = {"time_to_searchable": value}
            made.trial(experiment="ingest", phase="freshness", repeat=repeat, metrics=metrics)
        return made

    verdict = one(of_runs(fresh(), fresh(2, 4), "time_to_searchable"))
    assert (verdict.kind, verdict.reason) == (
        VerdictKind.NOT_COMPARABLE,
        "B: no value in repeat 2, 4: it was not told",
    )


def unjudged(*repeats: int) -> Made:
    """A sweep of one point, of some repeats of which no recall is known."""
    made = Made()
    for repeat, factor in enumerate(NOISE, 1):
        metrics = {
            "recall_mean": None if repeat in repeats else 0.96,
            "qps": 100 * factor, "latency_p99": 1e4 / factor,
        }  # fmt: skip
        made.trial(repeat=repeat, params={"ef_search": 40}, phase_params=ALONE, metrics=metrics)
    return made


def test_at_a_recall_that_one_side_does_not_know_there_is_no_verdict() -> None:
    a = Made().sweep(recalls={40: 0.96})
    speed, recall = of_runs(a, unjudged(1, 2, 3, 4, 5), "qps", "p99", "recall").verdicts
    assert speed.reason == "B: no recall was judged: it was not told"
    assert recall.reason == "B has no recall_mean: it was not told"
    some = one(of_runs(a, unjudged(3), "qps"))
    assert some.reason == "B: no value in repeat 3: it was not told"


def test_a_recall_that_may_not_be_trusted_is_none() -> None:
    b = unjudged(1, 2, 3, 4, 5)
    for repeat in (1, 2, 3):
        metrics = {"recall_mean": 0.96, "qps": 90.0}
        b.trial(
            repeat=repeat, params={"ef_search": 80}, phase_params=ALONE, metrics=metrics,
            invalid="overloaded: 40 %",
        )  # fmt: skip
    verdict = one(of_runs(Made().sweep(recalls={40: 0.96}), b, "qps"))
    assert verdict.kind is VerdictKind.NOT_COMPARABLE
    assert "B: no recall was judged" in verdict.reason


def test_a_recall_that_is_named_twice_is_asked_once() -> None:
    one(of_runs(Made().sweep(), Made().sweep(), "qps", recalls=(0.95, 0.95)))


def busy(*repeats_of: int, ready_s: float = 30) -> Made:
    """A load with something else busy in these repeats; it is thrice as slow as a quiet one."""
    made = Made()
    for repeat, factor in enumerate(NOISE, 1):
        other = 1.5 if repeat in repeats_of else 0.0
        metrics: dict[str, float | None] = {"ready_s": ready_s * factor, "other_cores": other}
        made.trial(experiment="ingest", phase="ingest", repeat=repeat, metrics=metrics)
    return made


def quiet(*repeats_of: int) -> Made:
    return busy(*repeats_of, ready_s=10)


def test_a_difference_holds_where_disturbed_phases_cannot_have_made_it() -> None:
    assert one(of_runs(quiet(), busy(), "ready_s")).kind is VerdictKind.WORSE
    of_some = one(of_runs(quiet(), busy(2, 5), "ready_s"))
    assert of_some.kind is VerdictKind.WORSE, "its three quiet repeats are slow, too"
    assert of_some.reason == "also in the best case of repeat 2, 5 of B on a disturbed machine"
    of_winner = one(of_runs(busy(), quiet(1, 2, 3, 4, 5), "ready_s"))
    assert of_winner.kind is VerdictKind.BETTER, "undisturbed it would have been better still"
    of_all = of_runs(quiet(), busy(1, 2, 3, 4, 5), "ready_s")
    undecided = one(of_all)
    assert undecided.kind is VerdictKind.UNDECIDED
    assert undecided.reason == "worse as measured, but every repeat of B on a disturbed machine"
    assert "--remeasure-disturbed" in of_all.advice[0]


def test_a_tie_of_disturbed_phases_holds_in_their_best_case_alone() -> None:
    assert one(of_runs(busy(1), busy(2), "ready_s")).kind is VerdictKind.TIE
    assert one(of_runs(busy(*range(1, 6)), busy(2), "ready_s")).kind is VerdictKind.UNDECIDED


def test_a_change_of_many_times_is_said_as_a_ratio() -> None:
    wide = (1.0, 1.05, 0.95)
    sides = Made().sweep(noise=wide), Made().sweep(noise=wide, speed=40.0)
    found = of_runs(*sides, "qps", recalls=(0.95,))
    _, _, change = document.figures(one(found))
    assert re.fullmatch(r"×40\.0 \(×\d\d\.\d … ×\d\d\.\d\)", change)
