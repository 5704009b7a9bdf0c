"""Tables, headings and pages: what a reader sees of cells that are made up."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from reproduction_runs import every, measured, run_of, trial
from rich.console import Console

from vectrial.document.blocks import Figure as Drawn
from vectrial.document.blocks import Report, Table, footnotes
from vectrial.document.render import markdown, terminal
from vectrial.stats.intervals import spread_of
from vectrial_reproduce.reports import REPRODUCTIONS, figure_text
from vectrial_reproduce.reports.collect import ComparedFigure, cells
from vectrial_reproduce.reports.conditions import ReportConditions, conditions_of
from vectrial_reproduce.reports.jsonl import as_json
from vectrial_reproduce.reports.matching import MeasuredPart
from vectrial_reproduce.reports.page import build, with_drawn_figures
from vectrial_reproduce.reports.page_tables import Layout
from vectrial_reproduce.reports.planning import Settings
from vectrial_reproduce.reports.published import PublishedFigure
from vectrial_reproduce.reports.tables import sheets, split_by_system


def figure(
    metric: str, value: float, unit: str = "1", store: str = "One", **params: int
) -> PublishedFigure:
    return PublishedFigure(
        "longbow", "some part", store, params, metric, value, unit, "a table", ""
    )


def compact(
    name: str,
    made: Sequence[ComparedFigure],
    about: ReportConditions | None = None,
    parts: Mapping[str, MeasuredPart] | None = None,
) -> Report:
    """The page as it is written as Markdown."""
    about = about or ReportConditions(1.0, "a machine")
    return build(REPRODUCTIONS[name], made, about, parts or {}, Layout.CELLS)


def cell(
    of: PublishedFigure, value: float | None, *notes: str, around: Sequence[float] = ()
) -> ComparedFigure:
    if value is None:
        return ComparedFigure(of, None, None, None, notes)
    spread = spread_of([value, *around]) if around else None
    return ComparedFigure(of, value, value / of.value, True, notes, spread=spread)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (cell(figure("recall", 0.9982), 0.99962), "0.9982 → 0.9996 (+0.0014)"),
        (cell(figure("recall", 0.988), 0.99998), "0.988 → 0.9999 (+0.0119)"),
        (cell(figure("recall", 0.9995), 0.99959), "0.9995 → 0.9995 (±0)"),
        (cell(figure("find_by_vector", 0.01, "s"), 0.002), "0.01 → 0.00200 (×0.20)"),
        (cell(figure("create", 16421.5, "s"), 820.0), "16,421.5 → 820 (×0.050)"),
        (cell(figure("qps", 62.1, "queries/s"), 314.0, around=(309.0, 318.0)),
         "62.1 → 314 (×5.1; 309–318)"),
        (cell(figure("qps", 62.1, "queries/s"), 314.0, around=(314.0, 314.01)),
         "62.1 → 314 (×5.1)"),
        (cell(figure("qps", 12.0, "queries/s"), None, "not yet"), "12 → —"),
        (replace(cell(figure("qps", 12.0), 24.0), valid=False), "12 → 24.0 (×2.0) ✗"),
    ],
)  # fmt: skip
def test_a_cell_says_what_was_printed_and_rounds_no_recall_up(
    found: ComparedFigure, wanted: str
) -> None:
    assert figure_text.full_text(found) == wanted


def test_a_sentence_stands_once_where_it_holds() -> None:
    """Of a column on its title, of a row on its store, else on the cell."""
    made = [
        cell(figure("qps", 10, m=16), 5, "per row", "as published: one run"),
        cell(figure("create", 10, m=16), 5, "as published: one run"),
        cell(figure("qps", 10, m=32), 5, "per row", "7 samples"),
        cell(figure("create", 10, m=32), None, "skipped: it has none"),
    ]
    (sheet,) = sheets(made)
    assert sheet.metric_notes == {"qps": ("per row",), "create": ()}
    first, second = sheet.lines
    assert sheet.line_notes(first) == ("as published: one run",)
    assert sheet.cell_notes(first, "qps") == ()
    assert sheet.line_notes(second) == ()
    assert sheet.cell_notes(second, "qps") == ("7 samples",)
    assert sheet.cell_notes(second, "create") == ("skipped: it has none",)
    written = markdown.render(compact("longbow", made))
    for note in ("per row", "as published: one run", "7 samples", "skipped: it has none"):
        assert len(re.findall(rf"^\d+\. {note}$", written, re.MULTILINE)) == 1
    assert "| Store | m | qps [1] | create |" in written
    assert "| One [2] | 16 | 10 → 5.00 (×0.50) | 10 → 5.00 (×0.50) |" in written


def test_rows_of_a_system_are_in_the_order_of_their_numbers() -> None:
    """As they come by name of file: 1, 16, 32, 8. Whose turn it is stays as in the report."""
    made = [
        cell(figure("qps", 10, store=store, clients=clients), 5)
        for clients in (1, 16, 32, 8)
        for store in ("One", "Other")
    ]
    (sheet,) = sheets(made)
    assert [(line.store, line.setting["clients"]) for line in sheet.lines] == [
        (store, clients) for clients in (1, 8, 16, 32) for store in ("One", "Other")
    ]


def test_a_long_table_is_one_for_each_system_with_its_own_units() -> None:
    made = [
        cell(figure("create", 10, "s" if store == "Slow" else "ms", store, m=m), 5, f"of {store}")
        for store in ("Slow", "Fast")
        for m in range(21)
    ]
    (sheet,) = sheets(made)
    assert sheet.metrics == (("create", ""),)
    assert [(part.title, part.metrics) for part in split_by_system(sheet)] == [
        ("Slow", (("create", "s"),)), ("Fast", (("create", "ms"),)),
    ]  # fmt: skip
    written = markdown.render(compact("longbow", made))
    assert "### some part: Fast\n\n| Store | m | create \\[ms\\] [1] |" in written
    (short,) = sheets(made[:30])
    assert split_by_system(short) == [short]


def test_settings_are_said_as_people_do() -> None:
    assert [figure_text.setting_text(value) for value in (True, False, 10_000, "same", None)] == [
        "yes", "no", "10,000", "same", "",
    ]  # fmt: skip


SEARCHED = {"qps": 300.0, "latency_p50": 3e3, "latency_p99": 5e3, "recall_mean": 1.0}
UNFILTERED = {"predicate": "none", "selectivity": 1.0, "payload_index": "on", "k": 10}


def longbow(rows: int = 20_000) -> MeasuredPart:
    return measured(
        "flight", "flat", "filtered", "search", UNFILTERED, SEARCHED, rows,
        version="vectrial flight reference (hnswlib 0.8.0)",
    )  # fmt: skip


def test_the_heading_says_what_was_measured_how_often_and_on_how_much() -> None:
    report, run = REPRODUCTIONS["longbow"], longbow(5_400)
    about = conditions_of(report, {"search-reference": run}, Settings(0.054, repeats=3))
    found = every("longbow", "search-reference", run)
    lines = Console(file=StringIO(), width=400)
    parts = {"search-reference": run}
    lines.print(terminal.render(build(report, found, about, parts, Layout.LIST)))
    assert isinstance(lines.file, StringIO)
    for said in (
        markdown.render(compact("longbow", found, about, parts)),
        lines.file.getvalue(),
    ):
        for wanted in (
            "2026-11-21", "0.1.0 (f8ae180b0e3b)", "5.4 %", "5,400", "500", "3 times", "median",
            "Longbow → reference server", "hnswlib 0.8.0", "Some CPU",
        ):  # fmt: skip
            assert wanted in said, wanted
        sentence = "one Python process that compares with every row"
        assert said.count(sentence) == 2, "a warning, and of the system; not per cell"
        assert "of its size" not in said
    once = conditions_of(report, {"search-reference": run}, Settings(1.0))
    assert "measured once" in once.repeated
    assert "of so few is their range" in ReportConditions(1.0, "a machine", repeats=5).repeated
    assert "(bootstrap)" in ReportConditions(1.0, "a machine", repeats=6).repeated


def test_a_part_of_which_nothing_was_measured_is_not_said_to_be_loaded() -> None:
    nothing = run_of(trial("flight", "flat", "hybrid", [], 50_000))
    parts = {"search-reference": longbow(), "hybrid-128-reference": nothing}
    about = conditions_of(REPRODUCTIONS["longbow"], parts, Settings(1.0))
    assert [part.title for part in about.loaded] == ["Search, 100,000 rows: the reference server"]


def test_where_nothing_was_asked_no_queries_are_told() -> None:
    run = measured(
        "flight", "flat", "transport", "put", {"clients": 1}, {"rows_per_s": 9.0}, 50_000
    )
    (part,) = conditions_of(
        REPRODUCTIONS["longbow"], {"put-128-reference": run}, Settings(1.0)
    ).loaded
    assert part.queries is None
    assert (part.rows, part.share) == (50_000, "")


def test_an_object_says_all_in_one_note_and_which_store_it_was() -> None:
    found = next(
        c for c in every("longbow", "search-reference", longbow()) if c.measured is not None
    )
    told_of = as_json(found)
    assert told_of["measured_store"] == "flight"
    assert isinstance(told_of["note"], str)
    assert "reference server" in told_of["note"]
    assert "recall here: 1.0000" in told_of["note"]
    assert (told_of["repeats"], told_of["low"], told_of["high"]) == (1, 300.0, 300.0)
    json.dumps(told_of)


def test_the_page_never_takes_what_stands_in_for_the_system_itself() -> None:
    report, run = REPRODUCTIONS["longbow"], measured(
        "flight", "flat", "transport", "put", {"clients": 1},
        {"payload_mb_per_s": 200.0, "rows_per_s": 4e5}, 50_000, version="9.9",
    )  # fmt: skip
    found = every("longbow", "put-128-reference", run)
    about = conditions_of(report, {"put-128-reference": run}, Settings(1.0))
    page = build(report, found, about, {"put-128-reference": run})
    assert any("no Longbow" in said for said in page.warnings)
    tables = {table.name: table for table in page.tables()}
    names = [row.cells[0].text for row in tables["ingest-uniform-128"].rows]
    assert names[-1] == "Longbow → reference server"
    assert {row.cells[0].text for row in tables["glance"].rows} == {"Longbow → reference server"}
    drawn = {one.name: one for one in page.figures()}["put"]
    labels = [page.labels[series] for series in drawn.series]
    assert "128 dimensions → reference server, measured" in labels
    assert "128 dimensions, published" in labels
    assert "reference server, measured" in drawn.alt
    assert tables["systems"].rows[0].cells[2].text == "9.9"


def test_footnotes_of_the_page_are_sentences_that_cells_share() -> None:
    found = every("longbow", "search-reference", longbow())
    page = build(REPRODUCTIONS["longbow"], found, ReportConditions(1.0, "a machine"), {})
    for table in page.tables():
        _, notes = footnotes(table)
        assert len(set(notes)) == len(notes)
        assert not any("; as published" in note for note in notes)
    search = next(t for t in page.tables() if t.name.startswith("search"))
    _, notes = footnotes(search)
    assert "recall here: 1.0000" in notes


def test_why_figures_may_not_be_trusted_stands_above_the_tables() -> None:
    found = [
        replace(one, valid=False, why="filters_hold: 3 of 100 answers") if one.valid else one
        for one in every("longbow", "search-reference", longbow())
    ]
    about = conditions_of(REPRODUCTIONS["longbow"], {"search": longbow()}, Settings(1.0))
    said = markdown.render(compact("longbow", found, about))
    (line,) = [one for one in said.splitlines() if "may not be trusted" in one]
    assert "Longbow → reference server: 3 measured figures" in line
    assert "3 of 100 answers" in line


def test_markdown_shows_the_figures_that_lie_beside_it(tmp_path: Path) -> None:
    report = REPRODUCTIONS["longbow"]
    found = cells(report, {}, known=())
    page = compact("longbow", found)
    assert all(isinstance(one, Drawn) for one in page.figures())
    (tmp_path / "put.svg").write_text("<svg/>")
    text = markdown.render(with_drawn_figures(page, tmp_path), "report/figures")
    assert re.findall(r"\]\(([^)]+)\)", text) == ["report/figures/put.svg"]
    at = text.index("report/figures/put.svg")
    assert text.index("### ingest · uniform-384") < at < text.index("## Method notes")


def test_how_anomalies_were_told_stands_beside_how_fast() -> None:
    """The method note promises it: AUROC of each class beside that of exact search."""
    told_of = {"score": "nearest", "false_alarms": 0.05, "fixed": 0.85, "k": 10}
    run = run_of(
        trial(
            "milvus", "hnsw", "anomaly",
            [
                ("search", {"k": 10, "clients": 1}, {"qps": 180.0, "latency_mean": 5.6e3}),
                ("classes", told_of, {"auroc": 0.91, "auroc_exact": 0.93}),
                ("class", {**told_of, "of": "screw"}, {"auroc": 0.91, "auroc_exact": 0.93}),
            ],
            1_500,
        ),
    )  # fmt: skip
    report, parts = REPRODUCTIONS["milvus-weaviate"], {"anomaly": run}
    found = every("milvus-weaviate", "anomaly", run)
    about = conditions_of(report, parts, Settings(1.0))
    page = build(report, found, about, parts)
    shown_on = next(section for section in page.sections if section.name == "part-anomaly")
    titles = [block.title for block in shown_on.blocks]
    assert any("Class by class" in title for title in titles)
    text = markdown.render(compact("milvus-weaviate", found, about, parts))
    assert "0.9100" in text
    assert "0.9300" in text
    assert "screw" in text


def test_every_step_of_a_load_with_indexes_and_without_stands_beside_the_whole() -> None:
    took = {"load_s": 21.25, "flush_s": 2.0, "build_s": 0.0, "wait_s": 13.75, "ready_s": 37.0}
    arms = [
        ("arm", {"payload_index": arm, "fields": 24}, {**took, "rows_per_s": 284.0})
        for arm in ("off", "on")
    ]
    run = run_of(trial("weaviate", "hnsw", "ingest", arms, 105_100))
    report, parts = REPRODUCTIONS["milvus-weaviate"], {"hnm": run}
    found = every("milvus-weaviate", "hnm", run)
    about = conditions_of(report, parts, Settings(1.0))
    page = build(report, found, about, parts)
    shown_on = next(s for s in page.sections if s.name == "part-scalar-index-overhead")
    tables = [block for block in shown_on.blocks if isinstance(block, Table)]
    steps = next(one for one in tables if "metadata indexes" in one.title)
    assert {"load_s", "flush_s", "build_s", "wait_s"} <= {column.key for column in steps.columns}
    text = markdown.render(compact("milvus-weaviate", found, about, parts))
    assert text.index("## Scalar index overhead") < text.index("21.2") < text.index("13.8")
