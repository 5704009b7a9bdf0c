"""A system that is called through the report's own client, beside the same by its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from reproduction_runs import kinds, run_of, trial

from vectrial.document.render import markdown
from vectrial.model.errors import UserError
from vectrial_reproduce.reports import REPRODUCTIONS
from vectrial_reproduce.reports.collect import ComparedFigure, cells
from vectrial_reproduce.reports.conditions import conditions_of
from vectrial_reproduce.reports.jsonl import as_json
from vectrial_reproduce.reports.matching import MeasuredPart
from vectrial_reproduce.reports.page import build
from vectrial_reproduce.reports.page_tables import Layout
from vectrial_reproduce.reports.planning import Settings, plan_parts

REPORT = REPRODUCTIONS["docarray-sift1m"]
BUILT = {"m": 16, "ef_construction": 64}
STORES = {"redis-search", "docarray-redis"}


def searched(store: str, latency_us: float, recall: float) -> MeasuredPart:
    found = {"latency_mean": latency_us, "recall_mean": recall}
    about = {"k": 10, "ef_search": 32}
    return run_of(trial(store, "hnsw", "search", [("search", about, found)], 10_000, built=BUILT))


def both() -> MeasuredPart:
    bare, through = searched("redis-search", 500.0, 0.8), searched("docarray-redis", 2_000.0, 0.8)
    return run_of(*bare.run.trials, *through.run.trials)


def of_redis(run: MeasuredPart, metric: str, *, faithful: bool = False) -> ComparedFigure:
    (found,) = [
        cell
        for cell in cells(REPORT, {"sift": run}, known=STORES, faithful=faithful)
        if (cell.figure.store, cell.figure.metric) == ("Redis", metric)
        and {**BUILT, "ef_search": 32}.items() <= cell.figure.params.items()
    ]
    return found


def test_both_stand_beside_what_was_published() -> None:
    cell = of_redis(both(), "find_by_vector")
    assert cell.through is not None
    assert (cell.measured, cell.store) == (pytest.approx(0.5), "redis-search")
    assert (cell.through.measured, cell.through.store) == (pytest.approx(2.0), "docarray-redis")
    assert cell.through.ratio == pytest.approx(2.0 / cell.figure.value)
    assert cell.cost == pytest.approx(4.0)
    told = as_json(cell)
    assert told["client"] is None
    assert (told["through"]["client"], told["through"]["measured"]) == ("DocArray 0.21", 2.0)


def test_where_it_was_not_tried_nothing_is_said_of_it() -> None:
    cell = of_redis(searched("redis-search", 500.0, 0.8), "find_by_vector")
    assert (cell.through, cell.cost) == (None, None)


def test_by_the_reports_own_method_it_is_the_measured_one() -> None:
    assert of_redis(both(), "find_by_vector", faithful=True).store == "docarray-redis"
    alone = of_redis(searched("redis-search", 500.0, 0.8), "find_by_vector", faithful=True)
    assert alone.store == "redis-search"


def test_rows_of_both_and_what_the_client_costs() -> None:
    run = {"sift": both()}
    every = cells(REPORT, run, known=STORES)
    page = build(REPORT, every, conditions_of(REPORT, run, Settings(0.01)), run, Layout.CELLS)
    text = markdown.render(page, "figures")
    assert "| Redis | DocArray 0.21 | find by vector | 1 | ×4.0 | ×4.0 | ×4.0 |" in text
    rows = [line for line in text.splitlines() if line.startswith("| Redis") and " → " in line]
    assert any("| own |" in line and "→ 0.500 " in line for line in rows)
    assert any("| DocArray 0.21 |" in line and "→ 2.00 " in line for line in rows)


def test_by_the_reports_method_only_what_cannot_be_called_so_is_called_otherwise() -> None:
    plans = plan_parts(REPORT, Settings(0.01, faithful=True), kinds())
    suites = {plan.part.name: plan.suite for plan in plans if plan.suite is not None}
    stores = {one.store for one in suites["sift"].stores}
    assert {"docarray-weaviate", "docarray-redis", "docarray-annlite"} <= stores
    assert not {"weaviate", "redis-search", "annlite"} & stores


def test_of_a_grid_only_the_builds_asked_for() -> None:
    asked = Settings(0.01, ("annlite",), builds={"m": 32, "ef_construction": 64})
    plan = plan_parts(REPORT, asked, kinds())[0]
    assert plan.suite is not None
    assert [one.params for one in plan.suite.stores] == [{"m": 32, "ef_construction": 64}]


@pytest.mark.parametrize("builds", [{"m": 17}, {"links": 16}])
def test_a_build_that_the_report_has_not(builds: dict[str, int]) -> None:
    with pytest.raises(UserError, match="builds nothing with") as raised:
        plan_parts(REPORT, Settings(0.01, builds=builds), kinds())
    assert "m: 16, 32" in str(raised.value.remedy)


def test_the_builds_of_a_folder_are_read_again(tmp_path: Path) -> None:
    from vectrial_reproduce.reports import folder

    settings = Settings(0.01, ("annlite",), builds={"m": 32})
    folder.begin(tmp_path, REPORT, settings, plan_parts(REPORT, settings, kinds()))
    assert folder.read(tmp_path).settings == settings
