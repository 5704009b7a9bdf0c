"""Plans: grids, keys, order, and what is refused before anything is measured."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectrial.model.capabilities import Environment, Index
from vectrial.model.errors import UserError
from vectrial.model.metric import Metric
from vectrial.model.store import Store
from vectrial.plan.checks import plan_warnings
from vectrial.plan.estimate import JOB_S, Pace, load_s, warm_up_of
from vectrial.plan.model import DatasetShape, Plan, Refusal
from vectrial.plan.plan import make_plan
from vectrial.run.plan_summary import summarize
from vectrial.stores import registry
from vectrial.stores.memory import MemoryStore
from vectrial.suite.model import parse_suite

SUITE = """
name = "t"
repeats = 2
[[datasets]]
name = "d"
[[stores]]
store = "hnswlib"
index = "hnsw"
params = { m = [8, 16], ef_construction = 64 }
[[experiments]]
experiment = "crud"
search = { ef_search = 50 }
[[experiments]]
experiment = "ingest"
checkpoints = [0.5, 1.0]
[[experiments]]
experiment = "search"
search = { ef_search = [16, 32, 64], nprobe = [1, 2] }
"""


def plan_of(text: str, metric: Metric = Metric.L2, **stores: type[Store]) -> Plan:
    """stores: in place of the registered ones."""
    return make_plan(
        parse_suite(text, "t.toml"),
        where="t.toml",
        load_store=lambda name: stores.get(name) or registry.load(name),
        shape_of=lambda ref: DatasetShape(ref.name, ref.rows or 1000, 8, metric),
        known_stores=registry.names(),
    )


def test_grids_repeats_and_checkpoints_expand() -> None:
    plan = plan_of(SUITE)
    # per build and repeat: 2 ingest checkpoints, 3 ef_search (nprobe is not hnsw's), 1 crud
    assert len(plan.trials) == 2 * 2 * (2 + 3 + 1)
    assert len({trial.row.key for trial in plan.trials}) == len(plan.trials)
    # the half-size checkpoint is a job of its own, in a fresh process
    assert sorted({(job.rows, len(job.trials)) for job in plan.jobs}) == [(500, 1), (1000, 5)]


def test_keys_and_parameters_of_trials_stay_as_earlier_versions_wrote_them() -> None:
    """A run is resumed by its trials' keys: a new one would measure every trial again."""
    known = {
        trial.row.key: (trial.row.experiment, trial.row.rows, dict(trial.row.params))
        for trial in plan_of(f'order = "suite"\n{SUITE}').trials
        if trial.row.repeat == 1 and trial.row.index_params["m"] == 8
    }
    searches = {
        key: ("search", 1000, {"k": 10, "clients": 1, "ef_search": value, "returns": "ids"})
        for key, value in (
            ("437867088483101931621176", 16),
            ("beacbff39ce6048ef0817245", 32),
            ("fe8486180e580608646699e2", 64),
        )
    }
    assert known == searches | {
        "dbf9561f38131095b1ea8ae8": ("ingest", 500, {"k": 10, "concurrency": 1}),
        "3a1cd6d0a600cb438ab2f877": ("ingest", 1000, {"k": 10, "concurrency": 1}),
        "3ef2225a29857a28c52069ad": ("crud", 1000, {"k": 10, "ef_search": 50}),
    }


def test_a_point_goes_to_the_measuring_process_validated_and_without_the_grid() -> None:
    trial = next(one for one in plan_of(SUITE).trials if one.row.experiment == "search")
    sent = pickle.loads(pickle.dumps((trial.experiment.for_point(), trial.point)))
    experiment, point = sent
    assert point == {"clients": 1, "ef_search": 16, "returns": "ids"} == trial.point
    with pytest.raises(TypeError, match="not changed"):
        point["clients"] = 2
    assert type(point.search) is registry.load("hnswlib").capabilities.indexes["hnsw"].search
    assert point.search.ef_search == 16
    assert experiment.settings() == trial.experiment.settings()
    with pytest.raises(AttributeError, match="search"):
        _ = experiment.search


def test_a_job_is_estimated_with_each_load_that_it_makes() -> None:
    jobs = plan_of(SUITE).jobs
    half, whole = (next(job for job in jobs if job.rows == rows) for rows in (500, 1000))
    begin_s, load_s = whole.estimates_s[0], whole.load_s
    assert load_s == 2 * half.load_s > 0
    assert [trial.row.experiment for trial in whole.trials] == ["ingest", *3 * ["search"], "crud"]
    # `ingest` loads what the others read, up to `crud`, which changes it.
    assert begin_s == JOB_S + load_s + whole.trials[0].own_s
    assert whole.estimates_s[1:] == tuple(trial.own_s for trial in whole.trials[1:])
    shuffled = replace(whole, trials=whole.trials[::-1])
    assert shuffled.estimates_s[:2] == (
        JOB_S + load_s + whole.trials[-1].own_s,
        load_s + whole.trials[-2].own_s,
    )


def test_an_effort_of_construction_and_a_server_take_time() -> None:
    def seconds(store: str, **params: int) -> float:
        kind = registry.load(store)
        index = kind.capabilities.indexes["hnsw"]
        return load_s(kind, Index("hnsw", index.build.model_validate(params)), 1000, 128)

    assert seconds("hnswlib", ef_construction=64) < seconds("hnswlib", ef_construction=512)
    assert seconds("hnswlib", ef_construction=64) < seconds("pgvector", ef_construction=64)


@given(st.lists(st.floats(1, 100), min_size=2, max_size=20), st.floats(0.1, 10))
def test_the_time_left_is_that_of_the_jobs_to_come(estimates: list[float], slower: float) -> None:
    pace, at_s = Pace(sum(estimates), slower), 1000.0
    for number, estimate_s in enumerate(estimates):
        left_s = pace.record_begin(estimate_s, at_s)
        assert left_s == pytest.approx(slower * sum(estimates[number:]))
        at_s += slower * estimate_s


def test_one_slow_job_does_not_decide_the_time_left_and_many_do() -> None:
    pace, at_s = Pace(6000.0), 0.0
    left = []
    for _ in range(300):
        left.append(pace.record_begin(20.0, at_s))
        at_s += 60.0
    assert left[0] == 6000
    assert 6000 < left[1] < 9000
    assert left[50] == pytest.approx(3 * 5000, rel=0.2)


def test_work_takes_longer_on_a_busy_machine_and_searches_do_not() -> None:
    plan = plan_of(SUITE)
    assert plan.busy_estimate_s(1.0) == plan.estimate_s
    work_s = sum(job.work_s for job in plan.jobs)
    assert 0 < work_s < plan.estimate_s
    assert plan.busy_estimate_s(3.0) == pytest.approx(plan.estimate_s + 2 * work_s)
    assert summarize(plan, 1.05).estimate.startswith("about ")
    assert "if it were quiet" in summarize(plan, 4.0).estimate
    assert "if it were quiet" not in summarize(plan, 1.05).estimate


def test_the_datasets_of_a_plan_are_the_cuts_that_its_jobs_load() -> None:
    plan = plan_of(SUITE.replace('name = "d"', 'name = "d"\nrows = 600\nqueries = 50'))
    assert [(ref.name, ref.rows, ref.queries) for ref in plan.datasets] == [
        ("d", 300, 50),
        ("d", 600, 50),
    ]


def test_a_trial_names_the_environment_of_its_store() -> None:
    class Elsewhere(MemoryStore):
        environment: ClassVar[Environment | None] = Environment("tiny")

    stores = '[[stores]]\nstore = "memory"\nindex = "flat"\n[[experiments]]'
    plan = plan_of(SUITE.replace("[[experiments]]", stores, 1), memory=Elsewhere)
    named = {trial.row.store: trial.row.environment_name for trial in plan.trials}
    assert named == {"hnswlib": None, "memory": "tiny"}


def test_repeats_are_interleaved_over_stores() -> None:
    repeats = [job.repeat for job in plan_of(SUITE).jobs]
    assert repeats == sorted(repeats)


def test_without_metadata_is_another_trial() -> None:
    text = SUITE.replace('name = "d"', 'name = "d"\nmetadata = false')
    plan = make_plan(
        parse_suite(text, "t.toml"),
        where="t.toml",
        load_store=registry.load,
        shape_of=lambda ref: DatasetShape(ref.name, 1000, 8, Metric.L2, metadata=ref.metadata),
        known_stores=registry.names(),
    )
    assert not any(job.metadata for job in plan.jobs)
    assert not any(ref.metadata for ref in plan.datasets)
    with_it = {trial.row.key for trial in plan_of(SUITE).trials}
    assert with_it.isdisjoint(trial.row.key for trial in plan.trials)


def test_interleaved_repeats_go_there_and_back_and_change_no_key() -> None:
    suite = SUITE.replace("repeats = 2", "repeats = 3")
    plain = plan_of(f'order = "suite"\n{suite}')
    woven = plan_of(suite.replace("repeats = 3", 'repeats = 3\norder = "interleaved"'))
    turns = [[j for j in woven.jobs if j.repeat == repeat] for repeat in (1, 2, 3)]
    assert [job.repeat for job in woven.jobs] == sorted(job.repeat for job in woven.jobs)
    names = [[(job.index_label, job.rows) for job in turn] for turn in turns]
    assert len(set(names[0])) == 4
    assert names[1] == names[0][::-1]
    assert names[2] == names[0]
    keys = [{trial.row.key for trial in plan.trials} for plan in (plain, woven)]
    assert keys[0] == keys[1], "a run that was begun in one order is resumed in the other"


def test_keys_are_stable_and_depend_on_what_defines_a_trial() -> None:
    first = {trial.row.key for trial in plan_of(SUITE).trials}
    assert first == {trial.row.key for trial in plan_of(SUITE).trials}
    for change in (
        ("seed", 'name = "t"', 'name = "t"\nseed = 7'),
        ("k", 'name = "t"', 'name = "t"\nk = 5'),
        ("batch size", 'name = "t"', 'name = "t"\nbatch_rows = 123'),
        ("dataset", 'name = "d"', 'name = "e"'),
        ("rows", 'name = "d"', 'name = "d"\nrows = 700'),
        ("a build parameter", "ef_construction = 64", "ef_construction = 65"),
        ("the other build parameter", "m = [8, 16]", "m = [9, 17]"),
        ("store", '"hnswlib"', '"usearch"'),
    ):
        changed = plan_of(SUITE.replace(change[1], change[2], 1))
        assert first.isdisjoint(trial.row.key for trial in changed.trials), change[0]
    other = plan_of(SUITE.replace("[16, 32, 64]", "[17, 33, 65]"))
    searched = {t.row.key for t in other.trials if t.row.experiment == "search"}
    assert searched
    assert first.isdisjoint(searched), "a search parameter"
    more = {trial.row.key for trial in plan_of(SUITE.replace("repeats = 2", "repeats = 3")).trials}
    assert first < more


def test_build_parameters_that_a_suite_does_not_name_are_in_the_trial_all_the_same() -> None:
    """Trap 000-5: parameters that the text names and nothing sets."""
    bare = SUITE.replace("params = { m = [8, 16], ef_construction = 64 }", "params = { m = 9 }")
    build = registry.load("hnswlib").capabilities.indexes["hnsw"].build().model_dump()
    assert {"m", "ef_construction"} <= build.keys()
    for trial in plan_of(bare).trials:
        assert trial.row.index_params == {**build, "m": 9}


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('"search"', '"serch"', ["experiments[2]", "did you mean 'search'?"]),
        ('"hnswlib"', '"hnswlb"', ["did you mean 'hnswlib'?"]),
        ('index = "hnsw"', 'index = "hsnw"', ["stores[0].index", "did you mean 'hnsw'?"]),
        ("m = [8, 16]", "mm = [8, 16]", ["stores[0].params", "unknown key 'mm'"]),
        ("m = [8, 16]", 'm = "big"', ["stores[0].params", "'m'"]),
        ("m = [8, 16]", "m = []", ["stores[0].params.m", "empty"]),
        (
            "ef_search = [16",
            "ef_serch = [16",
            ["experiments[2].search", "did you mean 'ef_search'?"],
        ),
        ("checkpoints = [0.5, 1.0]", "checkpoints = [-1]", ["checkpoints", "above 0"]),
        ("checkpoints = [0.5, 1.0]", "chekpoints = [1]", ["did you mean 'checkpoints'?"]),
    ],
)
def test_wrong_names_are_refused_with_the_nearest(old: str, new: str, named: list[str]) -> None:
    assert old in SUITE
    with pytest.raises(UserError) as caught:
        plan_of(SUITE.replace(old, new, 1))
    for part in ["t.toml", *named]:
        assert part in str(caught.value) or (part == "t.toml" and old == '"hnswlib"')


def test_the_same_trial_twice_is_refused() -> None:
    twice = SUITE + '[[experiments]]\nexperiment = "crud"\nsearch = { ef_search = 50 }\n'
    with pytest.raises(UserError, match="asked for twice"):
        plan_of(twice)


APART = """
[[stores]]
store = "memory"
index = "flat"
[[experiments]]
experiment = "ingest"
batch_rows = 9
stores = ["hnswlib"]
[[experiments]]
experiment = "ingest"
batch_rows = 50
stores = ["memory"]
"""


def test_an_experiment_may_be_for_some_of_the_stores() -> None:
    """Each its own batches, of one experiment that is asked twice."""
    text = SUITE + APART
    batches = {
        (trial.row.store, trial.row.params.get("batch_rows"))
        for trial in plan_of(text).trials
        if trial.row.experiment == "ingest"
    }
    assert batches == {("hnswlib", None), ("memory", None), ("hnswlib", 9), ("memory", 50)}
    with pytest.raises(UserError, match="not among this suite's stores") as caught:
        plan_of(text.replace('stores = ["memory"]', 'stores = ["memori"]'))
    assert "did you mean 'memory'?" in str(caught.value)
    assert "experiments[4].stores" in str(caught.value)


def test_what_is_for_others_goes_with_them() -> None:
    suite = parse_suite(SUITE + APART, "t.toml").with_stores(["memory"])
    assert [ref.store for ref in suite.stores] == ["memory"]
    assert [ref.stores for ref in suite.experiments] == [None, None, None, ["memory"]]
    assert suite.experiments[-1].parameters() == {"batch_rows": 50}


def test_what_a_store_cannot_do_is_refused_not_dropped() -> None:
    text = SUITE.replace('"hnswlib"', '"sqlite-vec"').replace('"hnsw"', '"flat"')
    text = text.replace("params = { m = [8, 16], ef_construction = 64 }", "")
    plan = plan_of(text, Metric.IP)
    assert not plan.trials
    refused = {refusal.row.experiment for refusal in plan.refusals}
    assert refused == {"crud", "ingest", "search"}
    assert all("ip" in refusal.reason for refusal in plan.refusals)


def test_what_is_skipped_is_counted_of_all_that_a_store_is_asked_for() -> None:
    """Not: "will be skipped: sqlite-vec" of a store of which one trial is."""
    text = SUITE.replace('"hnswlib"', '"sqlite-vec"').replace('"hnsw"', '"flat"')
    text = text.replace("params = { m = [8, 16], ef_construction = 64 }", "")
    whole = plan_of(text)
    plan = replace(whole, refusals=(Refusal(whole.trials[0].row, "it cannot"),))
    row, total = plan.refusals[0].row, len(whole.trials) + 1
    what = f"1 of {total} trials of sqlite-vec (flat {row.experiment})"
    assert plan.skipped == ((what, "it cannot"),)


@pytest.mark.parametrize(
    ("suite", "store", "refused"),
    [
        (None, None, False),
        ("buffered", None, False),
        ("synced", None, True),
        ("synced", "buffered", False),
        ("synced", "default", False),
        ("buffered", "synced", True),
    ],
)
def test_durability_is_what_the_store_can_promise(
    suite: str | None, store: str | None, refused: bool
) -> None:
    text = SUITE.replace('"hnswlib"', '"weaviate"').replace("m = [8, 16]", "m = 8")
    if suite:
        text = text.replace("repeats = 2", f'repeats = 2\ndurability = "{suite}"')
    if store:
        text = text.replace('index = "hnsw"', f'index = "hnsw"\ndurability = "{store}"')
    plan = plan_of(text)
    if refused:
        assert not plan.trials
        assert len(plan.refusals) == 3
        assert all("durability 'synced'" in refusal.reason for refusal in plan.refusals)
        assert all('durability = "buffered"' in refusal.reason for refusal in plan.refusals)
        return
    assert {job.durability for job in plan.jobs} == {"buffered"}
    assert {trial.row.key for trial in plan.trials} == {
        trial.row.key for trial in plan_of(text.replace("synced", "buffered")).trials
    }
    asked = {trial.row.experiment: trial.row.params.get("durability") for trial in plan.trials}
    assert asked == {"ingest": "buffered", "crud": "buffered", "search": None}
    assert any("durability of writes: buffered" in d for d in plan.trials[0].row.differences)


def test_what_loads_a_store_beside_tells_what_was_asked_of_its_writes() -> None:
    text = SUITE.replace('"hnswlib"', '"weaviate"').replace("m = [8, 16]", "m = 8")
    arms = 'experiment = "ingest"\npayload_index = ["none", "on"]\n'
    plan = plan_of(text.split("[[experiments]]")[0] + "[[experiments]]\n" + arms)
    asked = {trial.row.experiment: trial.row.params.get("durability") for trial in plan.trials}
    assert asked == {"ingest": "buffered"}


def test_a_store_that_promises_nothing_is_asked_for_nothing() -> None:
    assert {job.durability for job in plan_of(SUITE).jobs} == {None}
    refused = plan_of(SUITE.replace("repeats = 2", 'repeats = 2\ndurability = "memory"'))
    assert not refused.trials


def test_what_a_search_returns_is_part_of_its_point_and_its_key() -> None:
    returns = SUITE.replace("nprobe = [1, 2] }", 'nprobe = [1, 2] }\nreturns = ["ids", "vectors"]')
    plan = plan_of(returns)
    points = [t.point for t in plan.trials if t.row.experiment == "search"]
    assert {point["returns"] for point in points} == {"ids", "vectors"}
    assert {t.row.key for t in plan_of(SUITE).trials} < {t.row.key for t in plan.trials}
    wrong = SUITE.replace("nprobe = [1, 2] }", 'nprobe = [1, 2] }\nreturns = "everything"')
    with pytest.raises(UserError, match="returns"):
        plan_of(wrong)


def test_metadata_that_is_not_there_is_refused_and_ids_are_not() -> None:
    returns = 'nprobe = [1, 2] }\nreturns = ["ids", "metadata"]'
    plan = plan_of(SUITE.replace("nprobe = [1, 2] }", returns))
    refused = [r for r in plan.refusals if r.row.experiment == "search"]
    assert {r.row.params["returns"] for r in refused} == {"metadata"}
    assert all("no metadata" in r.reason for r in refused)
    assert any(t.row.experiment == "search" for t in plan.trials)


def test_several_callers_of_a_library_are_refused() -> None:
    plan = plan_of(SUITE.replace("checkpoints = [0.5, 1.0]", "concurrency = [1, 4]"))
    loads = [t.point["concurrency"] for t in plan.trials if t.row.experiment == "ingest"]
    assert set(loads) == {1}
    assert any("one client" in refusal.reason for refusal in plan.refusals)


def test_a_server_is_loaded_through_the_lane_asked_for() -> None:
    text = SUITE.replace('"hnswlib"', '"weaviate"').replace("m = [8, 16]", "m = 8")
    lanes = {t.row.lane for t in plan_of(text).trials if t.row.experiment == "ingest"}
    assert lanes == {"native"}
    text = text.replace('index = "hnsw"', 'index = "hnsw"\nlane = "sdk"')
    assert {t.row.lane for t in plan_of(text).trials} == {"sdk"}


@pytest.mark.parametrize(("store", "index", "noted"), [("memory", "flat", 1), ("faiss", "flat", 0)])
def test_a_store_that_keeps_nothing_on_disk_says_so_of_its_loads(
    store: str, index: str, noted: int
) -> None:
    stores = f'[[stores]]\nstore = "{store}"\nindex = "{index}"\n[[experiments]]'
    plan = plan_of(SUITE.replace("[[experiments]]", stores, 1))
    row = next(trial.row for trial in plan.trials if trial.row.store == store)
    assert sum("no flush" in note for note in row.differences) == noted


ELSEWHERE = SUITE.replace('store = "hnswlib"\nindex = "hnsw"', 'store = "redis"').replace(
    "params = { m = [8, 16], ef_construction = 64 }", ""
)


def test_client_machines_send_searches_of_the_native_lane_alone() -> None:
    plan = plan_of(ELSEWHERE + "[placement]\nclient_machines = 2\n", Metric.COSINE)
    assert {trial.row.experiment for trial in plan.trials} == {"search"}
    told = {refusal.row.experiment: refusal.reason for refusal in plan.refusals}
    assert told == {
        name: f"{name} is not measured from client machines" for name in ("crud", "ingest")
    }
    library = plan_of(SUITE + "[placement]\nclient_machines = 2\n")
    assert not library.trials
    assert any("not what goes through embedded" in one.reason for one in library.refusals)


def test_only_client_machines_change_the_key_of_a_trial() -> None:
    def keys(text: str) -> set[str]:
        plan = plan_of(ELSEWHERE + text, Metric.COSINE)
        return {trial.row.key for trial in plan.trials if trial.row.experiment == "search"}

    without = keys("[placement]\nthreads = 1\n")
    assert without == keys("[placement]\nthreads = 1\nclient_machines = 0\n")
    assert not without & keys("[placement]\nclient_machines = 1\n")


def test_client_machines_do_not_reach_simulated_hosts() -> None:
    with pytest.raises(UserError, match="simulated on one machine"):
        plan_of(ELSEWHERE + "[placement]\nclient_machines = 1\n[hosts]\n")


@pytest.mark.parametrize(
    ("store", "wanted", "seconds"),
    [
        ("elasticsearch", None, 20.0),
        ("opensearch", None, 20.0),
        ("elasticsearch", 0.0, 0.0),
        ("weaviate", None, 0.0),
        ("weaviate", 3.0, 3.0),
        ("hnswlib", 3.0, 0.0),
    ],
)
def test_a_server_is_warmed_up_as_its_store_declares_unless_the_suite_says(
    store: str, wanted: float | None, seconds: float
) -> None:
    def plan(text: str) -> Plan:
        return plan_of(text.replace('"hnswlib"', f'"{store}"').replace(", nprobe = [1, 2]", ""))

    kind = registry.load(store)
    assert warm_up_of(kind, wanted) == seconds
    key = "" if wanted is None else f"warm_up_s = {wanted}\n"
    made, cold = plan(key + SUITE), plan("warm_up_s = 0\n" + SUITE)
    told = {f"searched for {seconds:g} s before anything counts"}
    assert all(told <= set(t.row.differences) for t in made.trials) == bool(seconds)
    same = {t.row.key for t in made.trials} == {t.row.key for t in cold.trials}
    assert same == (not seconds), "what was measured otherwise is another trial"


OPEN = '[[experiments]]\nexperiment = "search"\nrates = [100]\nduration_s = 2\n'


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('arrivals = "constant"\n', 'arrivals = "poisson"\n'),
        ('arrivals = "trace"\ntrace = [0, 1]\n', 'arrivals = "trace"\ntrace = [0, 0.5, 1]\n'),
        ("in_flight = 10\n", "in_flight = 20\n"),
    ],
)
def test_searches_that_differ_by_their_schedule_are_two_and_look_so(
    first: str, second: str
) -> None:
    suite = SUITE[: SUITE.index("[[experiments]]")]
    alone = plan_of(suite + OPEN + first).trials
    both = plan_of(suite + OPEN + first + OPEN + second).trials
    assert len(both) == 2 * len(alone)
    assert {trial.row.key for trial in alone} < {trial.row.key for trial in both}, "old runs resume"
    assert {tuple(trial.row.params) for trial in alone} != {tuple(t.row.params) for t in both}
    shown = [
        (t.row.store, t.row.lane, t.row.repeat, str(t.row.index_params), str(t.row.params))
        for t in both
    ]
    assert len(set(shown)) == len(both), "no report takes them for repeats of one"


def test_a_longer_search_at_the_same_point_is_the_same() -> None:
    suite = SUITE[: SUITE.index("[[experiments]]")] + OPEN
    longer = suite + OPEN.replace("duration_s = 2", "duration_s = 5")
    assert plan_of(longer).trials == plan_of(suite).trials


def test_the_warm_up_is_in_the_estimate_unless_an_experiment_does_its_own() -> None:
    text = SUITE.replace('"hnswlib"', '"elasticsearch"').replace(", nprobe = [1, 2]", "")
    warm, cold = plan_of("warm_up_s = 50\n" + text), plan_of("warm_up_s = 0\n" + text)
    assert warm.estimate_s - cold.estimate_s == pytest.approx(50 * len(warm.jobs))
    assert {job.warm_up_s for job in warm.jobs} == {50}
    fit = text[: text.index("[[experiments]]")]
    fit += '[[experiments]]\nexperiment = "fit"\nmemory = "4GiB"\n'
    assert len({plan_of(f"warm_up_s = {s}\n{fit}").estimate_s for s in (0, 50)}) == 1


VARIANTS = """
name = "t"
order = "turns"
repeats = 1
[[datasets]]
name = "d"
[[stores]]
store = "hnswlib"
variant = "before"
[[stores]]
store = "hnswlib"
variant = "after"
[[stores]]
store = "usearch"
[[experiments]]
experiment = "search"
[[experiments]]
experiment = "storage"
stores = ["hnswlib@after"]
"""


def test_variants_of_a_store_are_stores_of_their_own() -> None:
    plan = plan_of(VARIANTS)
    assert [job.name for job in plan.jobs] == ["hnswlib@before", "hnswlib@after", "usearch"]
    names = [(trial.row.store, trial.row.experiment) for trial in plan.trials]
    assert sorted(names) == [
        ("hnswlib@after", "search"),
        ("hnswlib@after", "storage"),
        ("hnswlib@before", "search"),
        ("usearch", "search"),
    ]
    assert len({trial.row.key for trial in plan.trials}) == 4
    assert {job.store.name for job in plan.jobs} == {"hnswlib", "usearch"}
    assert [job.name for job in plan.for_stores(["hnswlib"]).jobs] == [
        "hnswlib@before",
        "hnswlib@after",
    ]


@pytest.mark.parametrize(
    ("chosen", "stores", "experiments"),
    [
        ("hnswlib", ["hnswlib@before", "hnswlib@after"], ["search", "storage"]),
        ("hnswlib@before", ["hnswlib@before"], ["search"]),
        ("hnswlib@after", ["hnswlib@after"], ["search", "storage"]),
    ],
)
def test_a_variant_is_chosen_by_its_name(
    chosen: str, stores: list[str], experiments: list[str]
) -> None:
    suite = parse_suite(VARIANTS, "t.toml").with_stores([chosen])
    assert [ref.name for ref in suite.stores] == stores
    assert [ref.experiment for ref in suite.experiments] == experiments


def test_a_trial_of_several_loads_in_turns_takes_as_many_times_as_long() -> None:
    """Those under each share, and the one without a filter."""
    lasts = []
    for shares in ([0.1], [0.1, 0.2, 0.3]):
        asked = f'experiment = "filtered"\npredicates = ["independent"]\nselectivities = {shares}'
        plan = plan_of(VARIANTS.replace('experiment = "storage"', asked))
        trial = next(t for t in plan.trials if "payload_index" in t.point)
        assert trial.in_turns
        lasts.append(trial.own_s)
    assert lasts[1] == pytest.approx(2 * lasts[0])


def test_variants_that_nothing_tells_apart_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    (alike,) = [text for text in plan_warnings(plan_of(VARIANTS)) if "hnswlib@" in text]
    assert alike.startswith("hnswlib@before and hnswlib@after are the same")
    monkeypatch.setenv("VECTRIAL_HNSWLIB_PACKAGES__AFTER", "hnswlib==0.7.0")
    monkeypatch.setenv("VECTRIAL_HNSWLIB_PACKAGES__BEFOR", "hnswlib==0.7.0")
    (typo,) = [text for text in plan_warnings(plan_of(VARIANTS)) if "__" in text]
    assert "__BEFOR, and no variant" in typo


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("a b", "b", "match"),
        ("", "b", "match"),
        ("v1.2", "v1-2", "__V1_2"),
    ],
)
def test_a_variant_that_could_not_be_told_is_refused(before: str, after: str, why: str) -> None:
    text = VARIANTS.replace('"before"', f'"{before}"').replace('"after"', f'"{after}"')
    with pytest.raises(UserError, match=why):
        parse_suite(text, "t.toml")


def test_the_same_variant_twice_is_the_same_trial_twice() -> None:
    text = VARIANTS.replace('"before"', '"after"')
    with pytest.raises(UserError, match="twice"):
        plan_of(text)
