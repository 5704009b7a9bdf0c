"""A report says what the database says, in every form, and escapes what it is told."""

from __future__ import annotations

import csv
import json
import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import duckdb
import pytest
from report_tables import cells_of
from rich.console import Console
from synthetic_runs import LONG, SCRIPT, dataset_facts, synthetic_run
from typer.testing import CliRunner
from written_reports import Written

from vectrial._engine import histogram_merge, histogram_quantiles
from vectrial.analysis.analysis import sweeps
from vectrial.cli.app import app
from vectrial.document.blocks import Report
from vectrial.document.charts import styles
from vectrial.document.render import export, html, markdown, terminal
from vectrial.model.results_schema import EXPORT_KEYS
from vectrial.model.trial import Series
from vectrial.report.build import build, summary
from vectrial.util import formatting


def sql(folder: Path, text: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(folder / "run.duckdb"), read_only=True) as db:
        return db.execute(text).fetchall()


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Page(HTMLParser):
    """Tags with their attributes, and the text outside style and script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._silent = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._silent += tag in ("style", "script")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("style", "script")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.text.append(data)


@pytest.fixture(scope="session")
def page(written: Written) -> Page:
    return Page((written.out / "report.html").read_text(encoding="utf-8"))


# -- html ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_hostile_names_stay_text(page: Page, written: Written) -> None:
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    assert SCRIPT in "".join(page.text)
    assert "<b>friends</b>" in "".join(page.text)
    for drawing in (written.out / "figures").glob("*.svg"):
        assert "<script" not in drawing.read_text(encoding="utf-8")
    assert "<script>" not in (written.out / "report.md").read_text(encoding="utf-8")


def test_page_requests_nothing(page: Page) -> None:
    for tag, attrs in page.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "image", "use")
        assert "src" not in attrs
        assert "style" not in attrs, "the policy forbids style attributes"
        for name in ("href", "xlink:href"):
            assert (attrs.get(name) or "#").startswith("#")
    policy = next(a["content"] for t, a in page.tags if a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_every_figure_is_drawn_for_both_widths(page: Page, written: Written) -> None:
    drawings = [a for t, a in page.tags if t == "div" and "drawing" in (a.get("class") or "")]
    assert len(drawings) == 2 * len(written.report.figures())


def test_anchors_exist_once(page: Page) -> None:
    names = [a["id"] for _, a in page.tags if a.get("id")]
    assert len(names) == len(set(names))
    for tag, attrs in page.tags:
        if tag == "a":
            assert (attrs["href"] or "")[1:] in names


def test_drawings_use_only_known_colours(written: Written) -> None:
    body = (written.out / "report.html").read_text(encoding="utf-8").split("</style>")[1]
    loose = set(re.findall(r'(?:fill|stroke)="(#[0-9a-fA-F]+)"', body))
    assert loose == set(), "a colour that dark mode cannot change"


#: One store, and one build of it.
FAISS = {"faiss": (1.0, "hnsw", True)}
BUILDS = ((16, 128),)


def answers_of(**options: Any) -> Any:
    """The short answers of the report of a synthetic run."""
    return build(synthetic_run(**options).data()).answers


# -- what is said ----------------------------------------------------------------------------


def test_wrong_store_wins_nothing(written: Written) -> None:
    (sweep,) = sweeps(written.run)
    broken = Series("broken", "hnsw", "embedded")
    assert sweep.select(broken, None), "it was measured"
    assert not sweep.select(broken)
    assert broken not in {p.series for p in sweep.front()}
    for _, answers in written.report.answers:
        assert answers
        assert all(a.answer != "broken" for a in answers)
    glance = next(t for t in written.report.tables() if t.name.startswith("glance"))
    (row,) = (r for r in glance.rows if r.series == broken)
    assert row.tone == "wrong"
    assert row.cells[1].text == "wrong"
    assert "recomputed 0.87" in row.cells[1].note


def test_a_failed_check_spoils_only_what_rests_on_it(written: Written) -> None:
    """usearch fails a check of filters, and nothing here searches under filters."""
    (sweep,) = sweeps(written.run)
    usearch = Series("usearch", "hnsw", "embedded")
    assert sweep.select(usearch)
    assert not [p for p in written.run.points if p.series == usearch and p.state == "wrong"]
    assert not any("usearch" in said for said in written.report.warnings)
    table = next(t for t in written.report.tables() if t.name == "gate")
    found = dict(zip((row.series for row in table.rows), cells_of(table), strict=True))
    assert found[usearch]["everything"].value is True
    assert found[usearch]["filtered_searches"].value is False
    assert found[usearch]["filtered_searches"].note == "filters complete: 8.6 of 10 rows"
    broken = found[Series("broken", "hnsw", "embedded")]
    assert broken["everything"].detail == "scores agree (1 of 3)"
    assert broken["filtered_searches"].text == "n/a"
    checks = next(t for t in written.report.tables() if t.name == "gate-checks")
    shown = {row.cells[0].value: row.cells[1].value for row in checks.rows}
    assert shown["filters_complete"] == "filtered searches"
    assert shown["scores_agree"] == "everything"
    rows = {
        row["metric"]: row["invalidates"]
        for row in export.measurements(written.folder)
        if row["kind"] == "gate"
    }
    assert rows == shown


def test_glance_has_every_store_once(written: Written) -> None:
    glance = next(t for t in written.report.tables() if t.name.startswith("glance"))
    found = [row.cells[0].value for row in glance.rows]
    stores = {str(r[0]) for r in sql(written.folder, "select distinct store from trial")}
    assert sorted(found) == sorted(stores)
    states = {row.cells[0].value: row.cells[1].text for row in glance.rows}
    assert states["annlite"] == "skipped"
    assert states["lancedb"] == "failed"


def test_equal_recall_agrees_with_the_database(written: Written) -> None:
    rows = read_csv(next((written.out / "csv").glob("equal-recall-*.csv")))
    best = dict(
        sql(
            written.folder,
            """
            with point as (
              select t.store, t.index_params, t.params,
                     median(m.value) filter (m.name = 'qps') as qps,
                     median(m.value) filter (m.name = 'recall_mean') as recall
              from trial t join phase p using (trial_id) join metric m using (phase_id)
              where t.experiment = 'search' and t.status = 'ok'
                and json_extract_string(p.params, 'clients') = '1' group by all)
            select store, max(qps) from point where recall >= 0.95 group by store""",
        )
    )
    told = {
        r["store"]: float(r["qps [1/s]"]) for r in rows if r["target"] == "0.95" and r["qps [1/s]"]
    }
    assert told == pytest.approx(best)
    assert {r["store"] for r in rows if r["state"] == "wrong"} == {"broken"}


def test_percentiles_of_all_repeats_are_those_of_their_merged_requests(written: Written) -> None:
    table = next(t for t in written.report.tables() if t.name.startswith("percentiles-"))
    (sweep,) = sweeps(written.run)
    assert {row.series for row in table.rows} == {
        series for series in sweep.series if sweep.best(series, 0.95)
    }
    for row, cells in zip(table.rows, cells_of(table), strict=True):
        best = sweep.best(row.series, 0.95)  # type: ignore[arg-type]
        assert best is not None
        parts = [written.run.histograms[phase.phase_id] for phase in best.phases]
        merged = histogram_quantiles(histogram_merge(parts), [0.99])
        each = [histogram_quantiles(part, [0.99])[0] for part in parts]
        assert [cells["p99"].value] == merged
        assert (cells["p99"].low, cells["p99"].high) == (min(each), max(each)), "of three repeats"
        assert (cells["requests"].value, cells["repeats"].value) == (1200, 3)


def test_where_no_figure_counts_none_is_called_the_greatest() -> None:
    broken = {"broken": (1.0, "hnsw", False)}
    ((_, (card,)),) = answers_of(stores=broken, efs=(256,), only_sweep=True)
    assert (card.answer, card.figure) == ("none", "no figure counts")
    ((_, (card,)),) = answers_of(stores={"a": (1.0, "hnsw", True)}, efs=(4,), only_sweep=True)
    assert card.answer == "none reached it"
    assert 0 < float(card.figure) < 0.95


def test_figures_of_a_row_come_from_the_same_point(written: Written) -> None:
    (sweep,) = sweeps(written.run)
    for series in sweep.series:
        best = sweep.best(series, 0.95)
        if best is not None:
            assert len({p.phase_id for p in best.phases}) == best.repeats == 3
            assert best.value("recall_mean") >= 0.95  # type: ignore[operator]


def test_missing_values_say_why(written: Written) -> None:
    (table,) = (t for t in written.report.tables() if t.name.startswith("operations"))
    for row in table.rows:
        for cell in row.cells:
            assert cell.text != "—" or cell.note or cell.tone == "absent"
    notes = {c.note for r in table.rows for c in r.cells}
    assert "unsupported: delete" in notes
    assert "3 of 1000 were acknowledged without their effect" in notes


def test_unknown_experiment_is_shown(written: Written) -> None:
    (table,) = (t for t in written.report.tables() if t.name == "spin")
    values = {r.cells[4].value: r.cells[5] for r in table.rows}
    assert values["count"].value == 12.0
    assert values["latency_p99"].note == "too few samples"


def test_warnings_name_what_bounds_the_claims(written: Written) -> None:
    said = " ".join(written.report.warnings)
    parts = (
        "broken failed",
        "failed; the report",
        "skipped; the report",
        "stands in for",
        "434 of the",
    )
    for part in parts:
        assert part in said


def test_one_repeat_claims_no_order() -> None:
    stores = {"a": (1.0, "hnsw", True), "b": (1.5, "hnsw", True)}
    run = synthetic_run(repeats=1, stores=stores, efs=(64,), only_sweep=True)
    report = build(run.data())
    assert any("no interval" in w for w in report.warnings)
    ((_, (card,)),) = report.answers
    assert (card.answer, card.figure, card.series) == ("undecided", "only 1 repeat", None)
    assert card.bound.startswith("The order may be chance.")


def test_a_store_is_named_where_disturbed_repeats_cannot_have_made_its_lead() -> None:
    stores = {name: (speed, "hnsw", True) for name, speed in (("a", 1.0), ("b", 1.5), ("c", 0.2))}
    run = synthetic_run(stores=stores, efs=(64,), only_sweep=True)

    def card() -> tuple[str, str]:
        ((_, (found,)),) = build(run.data()).answers
        return found.answer, found.bound

    def disturb(**row: object) -> None:
        """Have something else keep two processors busy during searches."""
        for one in run.of(**row):
            one.phases[0].metrics["other_cores"] = 2.0

    assert card()[0] == "b"
    for store in "abc":
        disturb(store=store, repeat=2)
        assert card()[0] == "b", "it leads in every repeat, and in the best case of the others"
    disturb(store="b")
    assert card()[0] == "b", "undisturbed it would have been faster still"
    disturb(store="a")
    answer, bound = card()
    assert answer == "b or a"
    assert "every repeat of b and every repeat of a on a disturbed machine" in bound
    assert "--remeasure-disturbed" in bound
    assert "Shown to be behind: c, " in bound


def test_stores_of_one_size_share_the_answer() -> None:
    run = synthetic_run(stores=FAISS, builds=BUILDS)
    run.change({"disk_bytes": 30_000_001}, store="sqlite")
    run.change({"disk_bytes": 30_000_000}, store="faiss")
    card = next(c for _, cards in build(run.data()).answers for c in cards if "disk" in c.question)
    assert card.answer == "faiss or sqlite"
    assert (card.figure, card.series) == ("30.0 MB after flush", None)
    assert card.bound.startswith("A tie: they differ by less than 5%.")


def test_a_store_that_alone_reached_the_recall_is_not_the_only_one_measured() -> None:
    stores = {"a": (1.0, "hnsw", True), "b": (1.5, "hnsw", True)}
    run = synthetic_run(stores=stores, efs=(64,), only_sweep=True)
    run.change({"recall_mean": 0.5}, store="b")
    ((_, (card,)),) = build(run.data()).answers
    assert card.answer == "a"
    assert "The only one with such a figure." in card.bound


def test_a_store_alone_is_shown_whatever_its_repeats() -> None:
    stores = {"a": (1.0, "hnsw", True)}
    ((_, (card,)),) = answers_of(repeats=1, stores=stores, efs=(64,), only_sweep=True)
    assert card.answer == "a"
    assert "The only one measured." in card.bound


def test_what_the_suite_says_of_itself_and_what_comes_second() -> None:
    run = synthetic_run(stores=FAISS, efs=(64,), builds=BUILDS, only_sweep=True)
    run.suite = 'name = "demo"\ndescription = "Words & <i>speed</i>"\n'
    report = build(run.data())
    assert report.about == "Words & <i>speed</i>"
    page = html.render(report)
    assert "description = &#34;Words" in page, "the suite, to repeat it"
    assert "Words &amp; &lt;i&gt;speed&lt;/i&gt;" in page
    assert "Words \\& \\<i\\>speed" in markdown.render(report)
    every = answers_of(stores=FAISS, builds=BUILDS)
    bounds = [answer.bound for _, answers in every for answer in answers]
    assert any(re.fullmatch(r"Next: (memory|faiss), [\d.,]+ (µs|ms|s|MB)\.", b) for b in bounds)


def test_a_smaller_cut_does_not_answer_for_the_whole() -> None:
    run = synthetic_run(stores=FAISS, builds=BUILDS)
    run.change({"disk_bytes": 1000, "raw_bytes": 1000}, store="faiss")
    assert smallest(build(run.data())) == "faiss"
    for one in run.of("storage", store="faiss"):
        one.row = replace(one.row, rows=500)
    report = build(run.data())
    assert smallest(report) == "sqlite"
    glance = next(t for t in report.tables() if t.name.startswith("glance"))
    (row,) = (row for row in glance.rows if row.cells[0].value == "faiss")
    disk = [column.key for column in glance.columns].index("disk_bytes")
    assert row.cells[disk].value is None


def test_a_size_that_cannot_be_believed_is_in_no_headline() -> None:
    run = synthetic_run(stores=FAISS, builds=BUILDS)
    run.change({"disk_bytes": 4096}, store="faiss")
    report = build(run.data())
    assert smallest(report) == "sqlite"
    glance = next(t for t in report.tables() if t.name.startswith("glance"))
    (row,) = (row for row in glance.rows if row.cells[0].value == "faiss")
    (cell,) = [cell for cell in row.cells if cell.value == 4096]
    assert "not ranked: it contradicts other recorded values" in cell.note


def test_datasets_of_unlike_sizes_each_have_their_loading() -> None:
    run = synthetic_run(stores=FAISS, builds=BUILDS, datasets=("one", "two"))
    for one in run.of("ingest", dataset="two"):
        if one.row.params["rows"] < 50_000:
            run.trials.remove(one)
        else:
            one.row = replace(one.row, params={"rows": 500})
    for one in run.of(dataset="two"):
        one.row = replace(one.row, rows=500)
    glances = [t for t in build(run.data()).tables() if t.name.startswith("glance")]
    assert [table.title.split(" · ")[0] for table in glances] == ["one", "two"]
    for table in glances:
        (row,) = (row for row in table.rows if row.cells[0].value == "faiss")
        ready = [column.key for column in table.columns].index("ready_s")
        assert row.cells[ready].value, table.title


def smallest(report: Report) -> str:
    ((_, answers),) = report.answers
    return next(answer.answer for answer in answers if answer.question == "Smallest on disk")


def test_settings_left_to_the_store_are_not_named() -> None:
    assert formatting.params({"nlist": None, "m": 16, "nprobe": 0}) == "m=16 nprobe=0"
    assert formatting.params({"nlist": None}) == "defaults"


def test_each_cut_of_a_dataset_is_shown_with_its_own_size() -> None:
    run = synthetic_run(stores=FAISS, only_sweep=True, builds=BUILDS)
    cut = {"rows": 5000, "queries": 70, "raw_bytes": 2_000_000, "facts": "{}"}
    run.datasets.append({**dataset_facts("glove-words-100"), **cut})
    report = build(run.data())
    (table,) = (t for t in report.tables() if t.name == "datasets")
    shown = [[cell.value for cell in row.cells][:6] for row in table.rows]
    assert shown == [
        ["glove-words-100", 5000, 100, 70, "cosine", 2_000_000],
        ["glove-words-100", 50_000, 100, 1000, "cosine", 20_000_000],
    ]
    assert dict(report.meta)["Datasets"] == "glove-words-100"
    assert sum("stands in for" in warning for warning in report.warnings) == 1


def test_several_datasets_stay_apart() -> None:
    stores = {f"s{i}": (1.0 + i, "hnsw", True) for i in range(12)} | {"s0": (1.0, "ivf", True)}
    run = synthetic_run(
        repeats=2,
        stores=stores,
        datasets=("words one", "words-one"),
        builds=((16, 64),),
        efs=(64, 256),
        only_sweep=True,
    ).data()
    report = build(run)
    names = [f.name for f in report.figures()] + [t.name for t in report.tables()]
    assert len(names) == len({name.lower() for name in names})
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)
    assert len(report.answers) == 2
    assert "2 repeats of search" in " ".join(report.warnings)
    assert len({styles.colour(s, report.stores) for s in report.stores}) == 12
    assert len({styles.shape(s, report.labels) for s in report.labels}) == len(report.labels)
    assert len(sweeps(run)) == 2


def test_one_store_with_two_indexes_has_two_names() -> None:
    options: dict[str, Any] = {
        "repeats": 1,
        "builds": ((16, 64),),
        "efs": (64,),
        "only_sweep": True,
    }
    run = synthetic_run(stores=FAISS, datasets=("one",), **options)
    ivf = {"faiss": (1.0, "ivf", True)}
    run.trials += synthetic_run(stores=ivf, datasets=("two",), **options).trials
    assert sorted(run.data().labels.values()) == ["faiss · hnsw", "faiss · ivf"]


def test_run_without_trials(tmp_path: Path) -> None:
    report = build(synthetic_run(stores={}, only_sweep=True).data())
    assert html.render(report)
    assert markdown.render(report)
    Console(file=(tmp_path / "out").open("w")).print(terminal.summary(report))


# -- files -----------------------------------------------------------------------------------


def test_every_figure_file_exists(written: Written) -> None:
    figures = written.report.figures()
    assert len(figures) >= 8
    assert len({f.name for f in figures}) == len(figures)
    for figure in figures:
        drawn = (written.out / "figures" / f"{figure.name}.svg").read_text(encoding="utf-8")
        assert drawn.startswith("<svg")
        image = (written.out / "figures" / f"{figure.name}.png").read_bytes()
        assert image.startswith(b"\x89PNG")
        assert len(image) > 5000


def test_markdown_has_every_table_and_figure(written: Written) -> None:
    said = (written.out / "report.md").read_text(encoding="utf-8")
    for table in written.report.tables():
        assert f"### {markdown.escape(table.title)}\n" in said
    for figure in written.report.figures():
        assert f"(figures/{figure.name}.svg)" in said
    widths = [
        line.replace("\\|", "").count("|") for line in said.splitlines() if line.startswith("|")
    ]
    columns = [len(t.columns) + 1 for t in written.report.tables() for _ in range(len(t.rows) + 2)]
    assert widths == columns


def test_csv_has_every_table(written: Written) -> None:
    for table in written.report.tables():
        rows = read_csv(written.out / "csv" / f"{table.name}.csv")
        assert len(rows) == len(table.rows)


def test_a_text_that_a_spreadsheet_would_compute_is_text_in_csv() -> None:
    from vectrial.document.render.export import csv_row

    cells = ['=HYPERLINK("http://x")', "+1", "-1", "@sum", "a=b", "", -1.5, None, 3]
    assert csv_row(cells) == [
        "'=HYPERLINK(\"http://x\")", "'+1", "'-1", "'@sum", "a=b", "", -1.5, None, 3,
    ]  # fmt: skip


def test_footprint_csv_agrees_with_the_database(written: Written) -> None:
    rows = read_csv(next((written.out / "csv").glob("size-*.csv")))
    medians = dict(
        sql(
            written.folder,
            """select t.store, median(m.value) from trial t join phase p using (trial_id)
               join metric m using (phase_id) where m.name = 'disk_bytes' group by t.store""",
        )
    )
    told = {r["store"]: float(r["disk_bytes [B]"]) for r in rows if r["disk_bytes [B]"]}
    assert told == pytest.approx({k: v for k, v in medians.items() if v is not None})


def test_measurements_csv_is_the_whole_of_the_metrics(written: Written) -> None:
    rows = read_csv(written.out / "csv" / "measurements.csv")
    ((count, total),) = sql(written.folder, "select count(*), sum(value) from metric")
    metrics = [r for r in rows if r["kind"] == "metric"]
    assert len(metrics) == count
    assert sum(float(r["value"]) for r in metrics if r["value"]) == pytest.approx(total)


# -- jsonl -----------------------------------------------------------------------------------


def test_jsonl_keys_rows_and_reasons(written: Written) -> None:
    done = CliRunner().invoke(app, ["report", str(written.folder), "--format", "jsonl"])
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(tuple(row)[: len(EXPORT_KEYS)] == EXPORT_KEYS for row in rows)
    assert {len(row) for row in rows} == {len(EXPORT_KEYS) + len(export.MORE_KEYS)}
    ((metrics, empty, checks),) = sql(
        written.folder,
        """select (select count(*) from metric), (select count(*) from metric where value is null),
           (select count(*) from gate)""",
    )
    kinds = [row["kind"] for row in rows]
    assert kinds.count("metric") == metrics
    assert kinds.count("gate") == checks
    assert kinds.count("trial") == 2
    assert sum(r["value"] is None for r in rows if r["kind"] == "metric") == empty
    assert all(r["reason"] for r in rows if r["value"] is None)
    assert all(r["reason"] for r in rows if not r["valid"])
    assert all(r["params"].keys() >= r["trial_params"].keys() for r in rows)
    assert not any(r["valid"] for r in rows if r["store"] == "broken" and r["kind"] == "metric")


def test_jsonl_of_gate_and_trials(written: Written) -> None:
    rows = list(export.measurements(written.folder))
    failed = [r for r in rows if r["kind"] == "gate" and r["value"] == 0.0]
    assert {(r["store"], r["phase"], r["metric"]) for r in failed} == {
        ("broken", "gate", "scores_agree"),
        ("usearch", "gate", "filters_complete"),
    }
    skipped = next(r for r in rows if r["kind"] == "trial" and r["store"] == "annlite")
    assert skipped["reason"].startswith("skipped: not installed")
    assert (skipped["phase"], skipped["metric"], skipped["valid"]) == (None, None, False)


# -- command and terminal --------------------------------------------------------------------


def test_terminal_summary(written: Written) -> None:
    done = CliRunner().invoke(app, ["report", str(written.folder), "--format", "text"])
    assert done.exit_code == 0, done.output
    assert "usearch" in done.stdout
    console = Console(width=160, record=True, file=(written.out / "terminal.txt").open("w"))
    console.print(summary(written.run))
    said = console.export_text()
    assert LONG[:20] in said
    assert "<script>" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format_", "made"),
    [("html", {"report.html"}), ("csv", {"csv"}), ("md", {"report.md", "figures"})],
)
def test_formats(tmp_path: Path, format_: str, made: set[str]) -> None:
    run = synthetic_run(stores=FAISS, efs=(64,), builds=BUILDS, only_sweep=True)
    folder, out = run.write(tmp_path / "run"), tmp_path / "here"
    done = CliRunner().invoke(app, ["report", str(folder), "--format", format_, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert {path.name for path in out.iterdir()} == made


def test_a_thousand_trials_render_in_seconds() -> None:
    stores = {f"store-{number}": (1 + number / 10, "hnsw", True) for number in range(14)}
    builds = tuple((number, 64) for number in range(36))
    run = synthetic_run(repeats=1, stores=stores, efs=(16, 64), builds=builds, only_sweep=True)
    began = time.process_time()
    report = build(run.data())
    page = html.render(report)
    took = time.process_time() - began
    assert len(run.trials) >= 1000
    assert page.count("aria-roledescription") > 1000
    assert took < 60, "generous: a busy machine must not fail this, a quadratic report must"
