"""The lanes behind one function: planned, keyed, measured and kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import null_store
import pytest
from experiment_worlds import target
from null_store import ADDRESS, NullStore, UnreachableStore

from vectrial.datasets import catalog, library
from vectrial.engine.null_server import null_server
from vectrial.experiments.search import Search
from vectrial.model.capabilities import Index, NoParams
from vectrial.model.context import fields_of
from vectrial.model.errors import UserError
from vectrial.model.placement import Placement
from vectrial.model.store import Store
from vectrial.model.workload import OpenLoop
from vectrial.plan.model import DatasetShape, Plan
from vectrial.plan.plan import make_plan
from vectrial.results.reader import RunReader
from vectrial.results.writer import RunWriter
from vectrial.run.runner import run_plan
from vectrial.stores import registry
from vectrial.suite.model import parse_suite
from vectrial.util import formatting

SWEEP = """
[[experiments]]
experiment = "search"
min_s = 0.1
"""
CLIENTS = """
[[experiments]]
experiment = "search"
clients = [4]
duration_s = 0.2
"""
RATES = """
[[experiments]]
experiment = "search"
rates = [400]
duration_s = 0.5
"""
STORE = """
name = "lanes"
repeats = 1
k = 10
[[datasets]]
name = "clustered-16-2k"
queries = 50
[[stores]]
store = "null"
index = "flat"
"""
SUITE = STORE + SWEEP + CLIENTS + RATES + '[[experiments]]\nexperiment = "storage"\n'
#: What is said of a null server's answers, for a store that declares exact ones.
NONSENSE = re.compile(
    r"an exact index that is not exact under the clock: recall [\d.]+, at least 0\.999;"
    r" of \d+ answers looked at, \d+ of \d+ scores differ from the l2 computed again;"
    r" the worst is [^;]+"
)
#: What may be said besides on a busy machine.
BUSY = re.compile(
    r"stalled [^;]+; an open loop shows how long clients would wait"
    r"|the first answer to each query [^;]+"
    r"|overloaded: [^;]+"
)
#: Said of a phase that is faster than the client was when its ceiling was measured.
EXCEEDED = "something else was busy then, and the phase is not held to it"
TOO_LOW = re.compile(rf"[\d,]+% of the [\d,]+ requests/s that [^:]*: {EXCEEDED}")
#: What the native lane tells of answers that it asks for twice after a phase.
AGAIN = ("count", "p50", "p99")
#: What else the machine did, which is known of a phase that was sampled often enough.
MACHINE = {
    *("other_cores", "steal_share", "throttled_share", "cpu_mhz"),
    *("stalled_share", "memory_stalled_share"),
}
#: Nobody is too near to a ceiling here: a test machine may be busy.
EASY = """
[client_limits]
cpu_share = 99
ceiling_share = 99
lag_us = 1e9
"""
DATASET = "clustered-16-2k"


def plan_of(text: str, store: type[Store] = NullStore) -> Plan:
    def load_store(name: str) -> type[Store]:
        return store if name == "null" else registry.load(name)

    entry = catalog.entry(DATASET)
    return make_plan(
        parse_suite(text, "t.toml"),
        where="t.toml",
        load_store=load_store,
        shape_of=lambda ref: DatasetShape(ref.name, 2000, entry.dim, entry.metric, entry.fields),
        known_stores=registry.names(),
    )


def lanes(plan: Plan) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for trial in plan.trials:
        found.setdefault(trial.row.experiment, []).append(trial.row.lane)
    return found


def test_a_server_store_is_searched_natively_and_loaded_by_its_client() -> None:
    assert lanes(plan_of(SUITE)) == {
        "search": ["native"] * 3,
        "storage": ["native"],  # asks nothing: beside the first lane
    }


def test_an_embedded_store_is_embedded() -> None:
    plan = plan_of(SUITE.replace('"null"', '"memory"'))
    assert plan.refusals == ()
    assert {trial.row.lane for trial in plan.trials} == {"embedded"}


def test_lanes_of_one_entry_share_a_load_and_have_keys_of_their_own() -> None:
    both = plan_of(SUITE.replace('index = "flat"', 'index = "flat"\nlane = ["native", "sdk"]'))
    (job,) = both.jobs
    assert lanes(both)["search"] == ["native", "sdk"] * 3
    assert len({trial.row.key for trial in job.trials}) == 7


@pytest.mark.parametrize(
    ("store", "lane", "why"),
    [
        ("memory", "native", "called in the process that holds its data"),
        ("memory", "sdk", "called in the process that holds its data"),
        ("null", "embedded", "it is a server"),
    ],
)
def test_a_lane_that_a_store_lacks_is_refused_with_the_reason(
    store: str, lane: str, why: str
) -> None:
    text = SUITE.replace('"null"', f'"{store}"')
    plan = plan_of(text.replace('index = "flat"', f'index = "flat"\nlane = "{lane}"'))
    assert set(lanes(plan)) == {"storage"}
    assert [refusal.row.experiment for refusal in plan.refusals] == ["search"] * 3
    for refusal in plan.refusals:
        assert why in refusal.reason
        assert "lane = " in refusal.reason


class Silent:
    """Nobody looks on."""

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run folder, with a null server where the store's native lane leads."""
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("VECTRIAL_PASS", ADDRESS)
    monkeypatch.setenv("PYTHONPATH", str(Path(null_store.__file__).parent))
    dataset = catalog.ensure(DATASET, lambda *_: None)
    assert fields_of(library.load(DATASET)) == fields_of(dataset)
    with null_server("grpc") as server:
        monkeypatch.setenv(ADDRESS, f"{server.host}:{server.port}")
        yield tmp_path / "run"


def measured(folder: Path, text: str) -> list[dict[str, Any]]:
    with RunWriter(folder) as writer:
        run_plan(plan_of(text), writer, Silent())
    with RunReader(folder) as run:
        return run.measured()


def load_of(row: dict[str, Any]) -> str:
    params = row["phase_params"]
    if "rate" in params:
        return "rate"
    return formatting.plural(params["clients"], "client") if "clients" in params else ""


@pytest.mark.slow
def test_experiments_run_unchanged_on_the_native_lane(folder: Path) -> None:
    # The longer, the longer a pause of the machine's has to be to look like an overload.
    rows = measured(folder, SUITE.replace("duration_s = 0.5", "duration_s = 3") + EASY)
    figures = {(load_of(row), row["metric"]): row["value"] for row in rows}
    searches = {"1 client": 100, "4 clients": 400, "rate": 100}
    assert {row["lane"] for row in rows if row["phase"] == "search"} == {"native"}
    assert figures["1 client", "count"] % 50 == 0, "every query weighs the same"
    assert figures["1 client", "qps"] > 0
    assert figures["4 clients", "concurrency"] == 4
    assert 0 < figures["4 clients", "littles_law"] <= 1.000001
    for experiment, warmed in searches.items():
        assert figures[experiment, "errors"] == 0
        assert figures[experiment, "warmup_count"] == warmed
        assert 0 <= figures[experiment, "recall_mean"] < 0.2, "the null server answers nonsense"
        assert figures[experiment, "cpu_us_per_op"] > 0
        assert figures[experiment, "ceiling_qps"] > 0
        assert figures[experiment, "ceiling_share"] > 0
        assert figures[experiment, "client_cpu_share"] > 0
    # Nothing is wrong with it but that the store declares exact answers, and the server has none.
    bad = [row for row in rows if not row["valid"] and row["value"] is not None]
    told = {load_of(row): row["reason"] for row in bad}
    assert all(NONSENSE.search(reason) for reason in told.values()), told
    rest = {TOO_LOW.sub("", BUSY.sub("", NONSENSE.sub("", one))) for one in told.values()}
    assert {one.strip("; ") for one in rest} == {""}, told
    assert set(told) == set(searches)


@pytest.mark.slow
def test_an_open_loop_shows_what_was_offered_and_how_late_it_was_sent(folder: Path) -> None:
    rates = RATES.replace("rates = [400]", 'rates = [400]\narrivals = "constant"')
    # As many requests as a p99 needs.
    opened = measured(folder, STORE + rates.replace("duration_s = 0.5", "duration_s = 0.75"))
    figures = {row["metric"]: row["value"] for row in opened}
    assert opened[0]["phase_params"] == {
        "loop": "open", "arrivals": "constant", "rate": 400, "k": 10, "returns": "ids",
    }  # fmt: skip
    assert figures["offered_rate"] == pytest.approx(400, rel=0.02)
    assert figures["count"] == 300
    assert (figures["unsent"], figures["in_flight_limit_hits"], figures["unanswered"]) == (0, 0, 0)
    assert figures["littles_law"] == pytest.approx(1, abs=2e-3)
    assert 0 < figures["service_p50"] <= figures["latency_p50"] * 1.01
    assert 0 < figures["schedule_lag_p50"] <= figures["schedule_lag_p99"]


@pytest.mark.slow
def test_the_python_client_is_measured_in_processes_of_its_own(folder: Path) -> None:
    both = 'index = "flat"\nlane = ["sdk", "native"]'
    # So long that a busy machine answers something in it.
    clients = CLIENTS.replace("duration_s = 0.2", "duration_s = 2")
    rows = measured(folder, (STORE + clients).replace('index = "flat"', both) + EASY)
    sdk = {row["metric"]: row for row in rows if row["lane"] == "sdk"}
    native = {row["metric"]: row for row in rows if row["lane"] == "native"}
    assert sdk["qps"]["phase_params"] == native["qps"]["phase_params"]
    assert sdk["recall_mean"]["value"] == 1, "the store itself answered"
    figures = {name: row["value"] for name, row in sdk.items()}
    assert (figures["concurrency"], figures["errors"]) == (4, 0)
    assert figures["warmup_count"] == 400
    assert 1 <= figures["client_processes"] <= 4
    assert 0 < figures["littles_law"] <= 1.000001
    assert figures["cpu_us_per_op"] > 0
    known = [row for row in sdk.values() if row["value"] is not None]
    assert all(row["valid"] for row in known), sdk["qps"]["reason"]


@pytest.mark.slow
def test_the_python_client_is_asked_by_the_same_schedule(folder: Path) -> None:
    both = 'index = "flat"\nlane = ["sdk", "native"]'
    text = (
        (STORE + RATES)
        .replace('index = "flat"', both)
        .replace("duration_s = 0.5", "duration_s = 1")
    )
    rows = measured(folder, text.replace("[400]", '[100]\narrivals = "constant"') + EASY)
    sdk = {row["metric"]: row for row in rows if row["lane"] == "sdk"}
    native = {row["metric"]: row for row in rows if row["lane"] == "native"}
    figures = {name: row["value"] for name, row in sdk.items()}
    assert sdk["qps"]["phase_params"] == native["qps"]["phase_params"]
    asked_again = {f"{which}_pass_{what}" for which in ("first", "later") for what in AGAIN}
    assert set(native) - set(sdk) - MACHINE == {"ceiling_qps", "ceiling_share", *asked_again}
    assert figures["count"] + figures["unsent"] == 100
    assert figures["offered_rate"] == pytest.approx(100)
    assert figures["recall_mean"] == 1, "the store itself answered"
    assert figures["littles_law"] == pytest.approx(1, abs=2e-3)
    assert figures["latency_p50"] >= figures["service_p50"]
    assert figures["schedule_lag_p50"] > 0
    assert 1 <= figures["client_processes"] <= 64


@pytest.mark.slow
def test_a_python_client_that_cannot_connect_fails_its_trial(folder: Path) -> None:
    text = STORE.replace('index = "flat"', 'index = "flat"\nlane = "sdk"') + CLIENTS
    with RunWriter(folder) as writer:
        run_plan(plan_of(text, UnreachableStore), writer, Silent())
    with RunReader(folder) as run:
        failed = run.rows("select reason from trial where status = 'failed'")
    assert len(failed) == 1
    assert all("nobody is there" in row["reason"] for row in failed), failed


@pytest.mark.slow
def test_a_client_at_its_ceiling_is_named_and_not_the_store(folder: Path) -> None:
    bound = EASY.replace("ceiling_share = 99", "ceiling_share = 1e-9")
    swept = measured(folder, STORE + SWEEP + bound)
    # A ceiling that a busy machine made too low is exceeded, and is none.
    held = [row for row in swept if EXCEEDED not in (row["reason"] or "")]
    assert not any(row["valid"] for row in held)
    assert all("client-bound" in row["reason"] for row in held if row["value"] is not None)


def test_a_trace_is_played_at_its_own_pace_or_stretched(tmp_path: Path) -> None:
    trace = tmp_path / "arrivals.txt"
    trace.write_text("0\n0.5\n2.0\n")
    loop = Search(arrivals="trace", trace=str(trace))  # type: ignore[arg-type]
    (point,) = loop.points(target(NullStore, Index("flat", NoParams()), 10))
    assert point == {"rate": 1.5, "returns": "ids"}
    assert loop.offsets(1.5).tolist() == [0, 500_000_000, 2_000_000_000]
    assert loop.offsets(3.0).tolist() == [0, 250_000_000, 1_000_000_000]


def pattern(search: Search, rate: float) -> str:
    load = search.load_at({"rate": rate})
    assert isinstance(load, OpenLoop)
    return load.pattern


def test_a_trace_is_told_from_another_at_any_pace() -> None:
    def told(*times: float, rate: float = 1.0) -> str:
        return pattern(Search(arrivals="trace", trace=times), rate)

    assert told(0, 0.5, 2) == told(0, 0.5, 2, rate=3.0) != told(0, 0.6, 2)
    assert told(0, 0.5, 2).startswith("trace ")
    assert pattern(Search(rates=(5,)), 5.0) == "poisson"


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("rates = []", "is empty"),
        ("rates = [5]\nclients = [1]", "clients does not go with rates"),
        ("rates = [0]", "greater than 0"),
        ('arrivals = "trace"', "goes with a trace"),
        ('arrivals = "trace"\ntrace = [1, 0]', "ascend"),
        ('arrivals = "trace"\ntrace = "absent.txt"', "cannot be read"),
    ],
)
def test_a_wrong_schedule_is_refused(wrong: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        plan_of(SUITE.replace("rates = [400]", wrong))


def test_client_and_server_get_cores_of_their_own_unless_asked() -> None:
    def cores(placement: Placement, *available: int) -> tuple[object, object]:
        found = placement.resolved(frozenset(available))
        return found.client_cores, found.server_cores

    assert cores(Placement(), 0, 1) == ((1,), (0,))
    assert cores(Placement(threads=2), 0, 1, 2, 3) == ((2, 3), (0, 1))
    assert cores(Placement(), 5) == ((), ()), "one core is everyone's"
    assert cores(Placement(threads=2), 0, 1) == ((), ())
    assert cores(Placement(client_cores=(0,)), 0, 1) == ((0,), (1,))
    assert cores(Placement(server_cores=(1,)), 0, 1) == ((0,), (1,))
    assert cores(Placement(client_cores=(0,), server_cores=(0,)), 0, 1) == ((0,), (0,))
    with pytest.raises(UserError, match="core 7"):
        cores(Placement(client_cores=(7,)), 0, 1)
    with pytest.raises(UserError, match="2 threads"):
        cores(Placement(threads=2, client_cores=(1,)), 0, 1)


def test_rows_that_the_engine_does_not_write_go_through_the_client() -> None:
    ingest = '[[experiments]]\nexperiment = "ingest"\n'
    assert lanes(plan_of(SUITE + ingest))["ingest"] == ["sdk"] * 3
    asked = SUITE.replace('index = "flat"', 'index = "flat"\nlane = "native"')
    plan = plan_of(asked + ingest)
    reasons = [r.reason for r in plan.refusals if r.row.experiment == "ingest"]
    assert len(reasons) == 3
    assert all("does not write its rows" in reason for reason in reasons)


def test_a_native_search_returns_only_what_the_server_can_put_into_it() -> None:
    text = (STORE + SWEEP).replace("min_s = 0.1", 'min_s = 0.1\nreturns = ["ids", "vectors"]')
    text = text.replace('index = "flat"', 'index = "flat"\nlane = ["native", "sdk"]')
    plan = plan_of(text)
    (refused,) = [r for r in plan.refusals if r.row.experiment == "search"]
    assert refused.row.lane == "native"
    assert "returns no vectors" in refused.reason
    swept = [t for t in plan.trials if t.row.experiment == "search"]
    assert sorted((t.row.lane, t.point["returns"]) for t in swept) == [
        ("native", "ids"),
        ("sdk", "ids"),
        ("sdk", "vectors"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("lane", ["native", "sdk"])
def test_clients_of_a_server_take_turns(folder: Path, lane: str) -> None:
    text = SUITE.replace('name = "lanes"', 'name = "lanes"\norder = "turns"')
    text = text.replace('index = "flat"', f'index = "flat"\nlane = "{lane}"')
    rows = measured(folder, text + EASY)
    figures = {(load_of(row), row["metric"]): row["value"] for row in rows}
    for load in ("1 client", "4 clients"):
        assert figures[load, "count"] > 20
        assert figures[load, "qps"] > 0
        assert 0 < figures[load, "littles_law"] <= 1.000001
    with RunReader(folder) as run:
        found = run.rows(
            "select p.phase_id, count(*) as n, sum(s.count) as answers from slice s"
            " join phase p using (phase_id) group by p.phase_id order by p.phase_id"
        )
        loops = run.rows("select status, reason from trial where experiment = 'search'")
    loads = ["1 client", "4 clients", *(["rate"] if lane == "native" else [])]
    # Arrivals of Python clients are measured alone.
    assert [row["n"] for row in found] == [found[0]["n"]] * len(loads)
    assert {row["answers"] for row in found} == {figures[load, "count"] for load in loads}
    assert figures["rate", "offered_rate"] == pytest.approx(400, rel=0.2)
    assert {row["status"] for row in loops} <= {"ok", "invalid"}
    assert all(row["reason"] is None or "answers" in row["reason"] for row in loops)
