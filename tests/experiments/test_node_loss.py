"""The loss of a node: what is planned, when it happens, and what is read from the requests."""

from __future__ import annotations

import threading
from time import perf_counter_ns

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectrial.experiments.node_loss import timeline
from vectrial.experiments.node_loss.loss import Aftermath, FaultSchedule, Writes
from vectrial.experiments.node_loss.timeline import RequestLog
from vectrial.model.faults import Fault, FaultEvent
from vectrial.model.metric import Metric
from vectrial.plan.model import DatasetShape, Plan
from vectrial.plan.plan import make_plan
from vectrial.stores import registry
from vectrial.suite.model import parse_suite

BACK_S, END_S = 10.0, 30.0


def requests(
    failed: tuple[float, ...] = (),
    short: tuple[float, ...] = (),
    worse: tuple[float, float] = (0, 0),
) -> RequestLog:
    """Ten searches a second from 10 s before the loss, each answered within 50 ms. failed, short:
    instants from which one is. worse: between these recall is 0.5 and not 0.9."""
    sent = np.arange(-100, 300) / 10
    at = lambda instants: np.isin(np.arange(len(sent)), np.searchsorted(sent, instants))  # noqa: E731
    failing = at(failed)
    recall = np.where((sent >= worse[0]) & (sent < worse[1]), 0.5, 0.9)
    recall[failing] = np.nan
    return RequestLog(sent, sent + 0.05, failing, at(short), recall)


def test_a_loss_that_nobody_noticed() -> None:
    found, missing = timeline.moments(requests(), BACK_S, END_S)
    assert missing == {"noticed_s": "no request failed, and no answer was short"}
    assert found["served_s"] == found["recovered_s"] == found["lost_share"] == 0.0
    assert found["recall_before"] == found["recall_lost"] == pytest.approx(0.9)


def test_moments_of_a_loss() -> None:
    seen = requests(failed=(0.2, 0.5, 3.0, 12.0), short=(0.1, 4.0), worse=(2.0, 15.0))
    found, missing = timeline.moments(seen, BACK_S, END_S)
    assert not missing
    assert found["noticed_s"] == pytest.approx(0.15), "a short answer came first"
    assert found["served_s"] == pytest.approx(4.0), "the last short answer"
    assert found["recovered_s"] == pytest.approx(5.0), "recall was low until 15 s"
    assert found["lost_share"] == pytest.approx(3 / 100)
    assert found["recall_lost"] < found["recall_after"] < found["recall_before"]


def test_what_does_not_end_has_no_moment() -> None:
    found, missing = timeline.moments(requests(failed=(9.9, 29.9)), BACK_S, END_S)
    assert missing["served_s"] == "not before the node was back"
    assert missing["recovered_s"] == "not before the end of the load"
    assert "served_s" not in found


@given(
    st.lists(st.tuples(st.floats(-5, 20), st.booleans(), st.booleans()), min_size=1, max_size=200)
)
def test_moments_lie_within_their_time(rows: list[tuple[float, bool, bool]]) -> None:
    sent = np.array(sorted(at for at, _, _ in rows))
    failed = np.array([one for _, one, _ in rows])
    short = np.array([one for _, _, one in rows]) & ~failed
    seen = RequestLog(sent, sent + 0.1, failed, short, np.where(failed, np.nan, 0.9))
    found, missing = timeline.moments(seen, 10.0, 20.0)
    assert not found.keys() & missing.keys()
    assert found.get("noticed_s", 0.0) >= 0.0
    assert 0.0 <= found.get("served_s", 0.0) <= 9.0
    assert 0.0 <= found.get("recovered_s", 0.0) <= 9.0
    parts = timeline.seconds(seen, -5.0, 20.0)
    assert sum(len(part.sent) for _, part in parts) == (sent < 20.0).sum()


def test_the_fault_is_made_and_ended_while_the_load_runs() -> None:
    done: list[tuple[int, bool, int]] = []

    def strike(node: int, fault: Fault, back: bool) -> FaultEvent:
        assert threading.current_thread() is not threading.main_thread()
        done.append((node, back, perf_counter_ns()))
        return FaultEvent(f"node-{node + 1}", fault, perf_counter_ns(), 0.0)

    loss = FaultSchedule(strike, 2, Fault.KILL, 0.05, 0.1)
    began = perf_counter_ns()
    loss.begin(began)
    loss.begin(began)
    while len(done) < 2:
        assert perf_counter_ns() < began + 10**10
    lost, back = loss.end()
    assert [(node, is_back) for node, is_back, _ in done] == [(2, False), (2, True)]
    # Both instants are of the load's clock: a fault that came late does not put off its end.
    assert began + 50_000_000 <= lost.at_ns < back.at_ns
    assert began + 150_000_000 <= back.at_ns


def test_a_load_that_ends_early_leaves_no_fault_behind() -> None:
    done: list[bool] = []

    def strike(node: int, fault: Fault, back: bool) -> FaultEvent:
        done.append(back)
        return FaultEvent("node-1", fault, perf_counter_ns(), 0.0)

    loss = FaultSchedule(strike, 0, Fault.PAUSE, 0.0, 60.0)
    loss.begin(perf_counter_ns())
    while not done:
        pass
    loss.end()
    assert done == [False, True]
    with pytest.raises(RuntimeError, match="before the node was lost"):
        FaultSchedule(strike, 0, Fault.PAUSE, 0.0, 60.0).end()


def test_nodes_have_settled_when_they_agree_on_what_may_be() -> None:
    writes = Writes(np.array([7]), np.array([3]), least=99, most=101)
    assert Aftermath(0, 0, (100, 100)).settled(writes)
    for aftermath in (
        Aftermath(1, 0, (100, 100)),
        Aftermath(0, 1, (100, 100)),
        Aftermath(0, 0, (100, 101)),
        Aftermath(0, 0, (98, 98)),
    ):
        assert not aftermath.settled(writes)


SUITE = """
name = "t"
repeats = 1
[[datasets]]
name = "d"
[[stores]]
store = "weaviate"
nodes = 3
[[experiments]]
experiment = "node_loss"
"""


def plan_of(text: str) -> Plan:
    return make_plan(
        parse_suite(text, "t.toml"),
        where="t.toml",
        load_store=registry.load,
        shape_of=lambda ref: DatasetShape(ref.name, 1000, 8, Metric.L2),
        known_stores=registry.names(),
    )


def test_a_cut_is_planned_where_nodes_are_on_hosts() -> None:
    plan = plan_of(SUITE)
    assert [trial.point["fault"] for trial in plan.trials] == ["kill", "pause"]
    (refused,) = plan.refusals
    assert "add [hosts] to the suite" in refused.reason
    assert [job.nodes for job in plan.jobs] == [3]
    assert len(plan_of(f"{SUITE}\n[hosts]").trials) == 3


@pytest.mark.parametrize(
    ("was", "now", "says"),
    [
        ("nodes = 3", "nodes = 1", "weaviate runs as one node: no node can be lost"),
        ('"weaviate"\nnodes = 3', '"hnswlib"\nnodes = 3', "hnswlib is a library: it has no nodes"),
        ('"weaviate"', '"qdrant"', "qdrant runs as one node here"),
        ("nodes = 3", "nodes = 3\nparams = {replication_factor = 4}", "keeps 4 copies of a part"),
        ('"node_loss"', '"node_loss"\nnode = 4', "weaviate has 3 nodes, and none number 4"),
    ],
)
def test_what_cannot_be_lost_is_refused(was: str, now: str, says: str) -> None:
    plan = plan_of(SUITE.replace(was, now))
    assert not plan.trials
    assert says in plan.refusals[0].reason


def test_each_size_is_a_series_of_its_own() -> None:
    text = SUITE.replace("nodes = 3", "nodes = [1, 3]").replace("node_loss", "search")
    text += "search = { ef_search = 64 }\n"
    plan = plan_of(text)
    assert [job.nodes for job in plan.jobs] == [1, 3]
    assert [trial.row.series.nodes for trial in plan.trials] == [1, 3]
    assert len({trial.row.key for trial in plan.trials}) == 2


def test_a_trial_of_one_node_has_the_key_that_it_had() -> None:
    text = SUITE.replace("node_loss", "ingest")
    alone, one = (plan_of(text.replace("nodes = 3", some)) for some in ("", "nodes = 1"))
    assert alone.trials[0].row.key == one.trials[0].row.key
    assert "nodes" not in alone.trials[0].row.index_params
