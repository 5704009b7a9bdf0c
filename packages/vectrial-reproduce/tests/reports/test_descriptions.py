"""The descriptions of the reports fit their figures, and make suites that can be planned."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from reproduction_runs import kinds

from vectrial.datasets import catalog
from vectrial.experiments.registry import EXPERIMENTS, all_metrics
from vectrial.model.availability import Availability
from vectrial.model.errors import UserError
from vectrial.model.schema import FieldType
from vectrial.run.prepare import plan_of
from vectrial.stores import registry
from vectrial_reproduce.commands import reproduce
from vectrial_reproduce.reports import REPRODUCTIONS, planning
from vectrial_reproduce.reports.collect import (
    _FACTORS,
    cells,
    is_figure_of,
    places,
    why_not_measured,
)
from vectrial_reproduce.reports.figure_text import full_text
from vectrial_reproduce.reports.folder import MANIFEST, begin
from vectrial_reproduce.reports.jsonl import KEYS, jsonl
from vectrial_reproduce.reports.planning import Settings, plan_parts
from vectrial_reproduce.reports.published import figures
from vectrial_reproduce.reports.selection import select
from vectrial_reproduce.reports.tables import sheets

NAMES = sorted(REPRODUCTIONS)


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_measured_or_said_not_to_be(name: str) -> None:
    report = REPRODUCTIONS[name]
    for figure in figures(name):
        found = list(places(report, figure))
        if not found:
            assert why_not_measured(report, figure) in report.not_yet.values()
            continue
        assert any(is_figure_of(arm, figure) for arm in found[0][0].arms)
        for part, measure in found:
            assert any(ask.experiment == measure.experiment for ask in part.asks)
            for metric in filter(None, (measure.metric, measure.faithful, *measure.minus)):
                assert (all_metrics()[metric].unit, figure.unit) in _FACTORS


@pytest.mark.parametrize("name", NAMES)
def test_every_part_covers_figures_and_asks_known_experiments(name: str) -> None:
    report = REPRODUCTIONS[name]
    used = [part.name for f in figures(name) for part, _ in places(report, f)]
    assert {part.name for part in report.parts if part.measures} == set(used)
    for part in report.parts:
        assert {ask.experiment for ask in part.asks} <= EXPERIMENTS.keys()
        assert {arm.published for arm in part.arms} <= {f.store for f in figures(name)}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("faithful", [False, True])
def test_every_part_is_a_valid_suite(name: str, faithful: bool) -> None:
    plans = plan_parts(REPRODUCTIONS[name], Settings(0.001, faithful=faithful), kinds())
    for plan in plans:
        if plan.suite is None:
            # What it stands in for can be measured itself, or no store here stands for it.
            assert (
                plan.part.instead_of or not {arm.store for arm in plan.part.arms} & kinds().keys()
            )
            continue
        for ref in plan.suite.experiments:
            EXPERIMENTS[ref.experiment].model_validate(ref.parameters())
        for ref in plan.suite.stores:
            kind = kinds()[ref.store].capabilities.indexes[ref.index]
            assert set(ref.params) <= set(kind.build.model_fields)
            if faithful and kinds()[ref.store].kind == "server":
                assert ref.lane == "sdk"


def test_only_the_parts_that_are_asked_for_are_planned() -> None:
    report = REPRODUCTIONS["milvus-weaviate"]
    plans = plan_parts(report, Settings(0.01, only=("glove",)), kinds())
    assert [plan.part.name for plan in plans if plan.suite is not None] == ["glove"]
    with pytest.raises(UserError, match="has no part 'glov'"):
        plan_parts(report, Settings(0.01, only=("glov",)), kinds())


def test_what_was_begun_goes_on_with_some_of_its_stores_and_parts() -> None:
    report = REPRODUCTIONS["docarray-1m"]
    settings = Settings(0.01, ("annlite", "weaviate"), only=("same", "vendor"))
    plans = plan_parts(report, settings, kinds())
    whole = {plan.part.name: plan_of(plan.suite, "x") for plan in plans if plan.suite is not None}

    def stores_of(*given: tuple[str, ...]) -> dict[str, set[str]]:
        selection = select(plans, *given)
        of_part = {
            plan.part.name: {
                job.store.name for job in selection.plan(plan, whole[plan.part.name]).jobs
            }
            for plan in plans
            if plan.suite is not None
        }
        return {name: stores for name, stores in of_part.items() if stores}

    assert stores_of((), ()) == {name: {"annlite", "weaviate"} for name in ("same", "vendor")}
    assert stores_of(("weaviate",), ("vendor",)) == {"vendor": {"weaviate"}}
    for given, said in (
        ((("weavate",), ()), "without 'weavate' (did you mean 'weaviate'?)"),
        ((("elasticsearch",), ()), "without 'elasticsearch'"),
        (((), ("same-edge",)), "without 'same-edge'"),
    ):
        with pytest.raises(UserError) as refused:
            select(plans, *given)
        assert said in str(refused.value)


def test_the_reports_own_size_is_asked_for_at_scale_one() -> None:
    plans = plan_parts(REPRODUCTIONS["docarray-1m"], Settings(1.0), kinds())
    assert {(p.rows, p.dataset) for p in plans} == {(1_000_000, "uniform-128-1000000-cosine")}


def test_published_sizes_are_their_own_where_they_fit() -> None:
    """All that are loaded stand for those that do not fit, which a share of theirs would be
    farther from; where none fits, they grow as the published ones do."""
    (glove, *_) = REPRODUCTIONS["milvus-weaviate"].parts
    published = (10_000, 100_000, 1_183_514)
    for rows, wanted in (
        (1_183_514, [10_000, 100_000, 1_183_514]),
        (118_351, [10_000, 100_000, 118_351]),
        (50_000, [10_000, 50_000, 50_000]),
        (5_918, [200, 500, 5_918]),
    ):
        assert [glove.size(n, rows) for n in published] == wanted


def test_the_dataset_is_the_first_that_is_large_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    report = REPRODUCTIONS["milvus-weaviate"]
    (arxiv,) = (part for part in report.parts if part.name == "arxiv")
    wordnet, debian = "wordnet-minilm-384", "debian-minilm-384"
    arxiv = replace(arxiv, sources=(arxiv.sources[0], wordnet, debian))
    report = replace(report, parts=(arxiv,))
    rows_of = {wordnet: 116_033, debian: 59_004}
    kept = SimpleNamespace(queries=range(1000))
    monkeypatch.setattr(
        planning.library, "load", lambda name: SimpleNamespace(**vars(kept), rows=rows_of[name])
    )
    for here, scale, wanted in (
        ([debian], 0.01, (debian, 21_386)),
        ([wordnet, debian], 0.01, (wordnet, 21_386)),
        ([debian, wordnet], 0.1, (wordnet, 116_033)),
        ([debian], 0.1, (debian, 59_004)),
    ):
        monkeypatch.setattr(planning.library, "names", lambda here=here: here)
        (plan,) = plan_parts(report, Settings(scale), kinds())
        assert (plan.dataset, plan.rows) == wanted


def test_texts_that_are_not_here_are_made_only_as_far_as_they_are_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning.library, "names", list)
    for scale, wanted in ((0.005, 20_000), (0.1, 213_859), (1.0, 467_566)):
        plans = plan_parts(REPRODUCTIONS["milvus-weaviate"], Settings(scale), kinds())
        (plan,) = (one for one in plans if one.part.name == "arxiv")
        cut = "" if scale == 1 else f"-{wanted}"
        assert (plan.dataset, plan.rows) == (f"dictionaries-minilm-384{cut}", wanted)


def test_nothing_goes_on_with_other_data_than_it_was_begun_with(tmp_path: Path) -> None:
    plans = plan_parts(REPRODUCTIONS["docarray-1m"], Settings(0.01), kinds())
    begin(tmp_path, REPRODUCTIONS["docarray-1m"], Settings(0.01), plans)
    reproduce._check_same_data(tmp_path, plans)
    told = json.loads((tmp_path / MANIFEST).read_text())
    told["parts"]["vendor"] = {"dataset": "uniform-128-5000-cosine", "rows": 5_000}
    (tmp_path / MANIFEST).write_text(json.dumps(told))
    with pytest.raises(UserError, match="5,000 rows of uniform-128-5000-cosine"):
        reproduce._check_same_data(tmp_path, plans)


@pytest.mark.parametrize("scale", [0.01, 1.0])
def test_rows_that_are_searched_by_text_have_texts(scale: float) -> None:
    """Whichever of a part's datasets is at hand."""
    parts = [
        part
        for part in REPRODUCTIONS["longbow"].parts
        if part.instead_of and part.asks[0].experiment == "hybrid"
    ]
    assert len(parts) == 2
    for part in parts:
        for source in part.sources:
            entry = catalog.entry(source.format(rows=round(part.rows * scale)))
            assert FieldType.STRING in {field.type for field in entry.fields}
    plans = plan_parts(REPRODUCTIONS["longbow"], Settings(scale), kinds())
    for plan in plans:
        if plan.part in parts:
            assert plan.suite is not None
            (ref,) = plan.suite.experiments
            wanted = {plan.part.size(rows, plan.rows) for rows in (3_000, 15_000, 50_000)}
            assert set(ref.parameters()["sizes"]) == wanted


def test_a_scale_or_store_that_makes_no_sense_is_refused() -> None:
    report = REPRODUCTIONS["docarray-1m"]
    with pytest.raises(UserError, match="between 0 and 1"):
        plan_parts(report, Settings(2.0), kinds())
    with pytest.raises(UserError, match="does not name"):
        plan_parts(report, Settings(0.01, ("faiss",)), kinds())


@pytest.mark.parametrize("name", NAMES)
def test_without_a_run_every_cell_says_why_it_is_empty(name: str) -> None:
    found = cells(REPRODUCTIONS[name], {}, known=kinds())
    assert [cell.figure for cell in found] == list(figures(name)), "the report's own order"
    assert all(cell.note.startswith(("not yet: ", "skipped: ")) for cell in found)
    assert all("—" in full_text(cell) for cell in found)
    objects = [json.loads(line) for line in jsonl(found)]
    assert all(tuple(each)[: len(KEYS)] == KEYS for each in objects)
    assert all(each["valid"] is None for each in objects)


def test_filters_of_milvus_against_weaviate_are_those_on_columns_with_indexes_and_without() -> None:
    report = REPRODUCTIONS["milvus-weaviate"]
    where = {}
    for figure in figures(report.name):
        told = figure.params.get("filter", figure.params.get("indexed"))
        if told is not None and (found := next(places(report, figure), None)):
            where[figure.experiment, told, figure.metric] = found[1].where
    indexed = {"selectivity": "own", "payload_index": ("on", "fixed")}
    unindexed = {"selectivity": "own", "payload_index": "off"}
    assert where["filtered", True, "qps"] == indexed
    assert where["filtered", False, "qps"] == unindexed
    for metric in ("qps", "latency_mean", "recall"):
        assert where["result_files", "indexed", metric] == indexed
        assert where["result_files", "unindexed", metric] == unindexed
    assert where["result_files", "none", "qps"]["selectivity"] == 1.0
    assert ("result_files", "none", "recall") not in where, "its truth is another"


def test_the_sift_grid_is_one_table_in_its_order() -> None:
    (sheet,) = sheets(cells(REPRODUCTIONS["docarray-sift1m"], {}, known=kinds()))
    assert len(sheet.lines) == 2 + 5 * 24
    assert [line.store for line in sheet.lines[:2]] == ["In-Memory", "AnnLite"]
    assert len(sheet.metrics) == 7
    assert all(len(line.cells) == 7 for line in sheet.lines)


def test_what_no_build_parameter_changes_is_asked_once() -> None:
    """Five of six builds of a store are not loaded a second time to find rows by condition."""
    plan, *_ = plan_parts(REPRODUCTIONS["docarray-sift1m"], Settings(0.001), kinds())
    assert plan.suite is not None
    refs = [ref for ref in plan.suite.stores if ref.store == "weaviate"]
    assert [ref.experiments is None for ref in refs] == [True, *[False] * 5]
    assert not any("condition" in (ref.experiments or []) for ref in refs)
    assert {(ref.params["m"], ref.params["ef_construction"]) for ref in refs} == {
        (m, c) for m in (16, 32) for c in (64, 128, 256)
    }


def test_a_part_stands_in_only_for_a_store_that_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis' vector sets in place of its query engine, and Qdrant Edge of Qdrant."""
    report = REPRODUCTIONS["docarray-sift1m"]
    for works, wanted in ((False, [{"qdrant-edge"}, {"redis"}]), (True, [set(), set()])):
        told = Availability(works, "")
        monkeypatch.setattr(registry, "availability", lambda store, told=told: told)
        _, *instead = plan_parts(report, Settings(0.001), kinds())
        found = [one.suite.stores if one.suite is not None else [] for one in instead]
        assert [{ref.store for ref in refs} for refs in found] == wanted
