"""What the figures of a reproduction are drawn of: no chart, no run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from vectrial.document.blocks import Figure, Report, Table, Text
from vectrial.document.charts.styles import colour
from vectrial.document.render import draw
from vectrial.stores import registry
from vectrial_reproduce.reports import REPRODUCTIONS
from vectrial_reproduce.reports.collect import ComparedFigure, cells
from vectrial_reproduce.reports.conditions import LoadedData, ReportConditions
from vectrial_reproduce.reports.figures_data import Dot, Plot, plot
from vectrial_reproduce.reports.figures_render import Palette
from vectrial_reproduce.reports.figures_spec import DRAWINGS
from vectrial_reproduce.reports.model import Drawing
from vectrial_reproduce.reports.page import build
from vectrial_reproduce.reports.published import figures

NAMES = sorted(REPRODUCTIONS)
EVERY = [
    pytest.param(name, drawing, id=f"{name}-{drawing.name}")
    for name in NAMES
    for drawing in DRAWINGS[name]
]
ABOUT = ReportConditions(0.1, "a machine", (LoadedData("Part", "something", 10, 100),))


def found(
    name: str, times: float | None = 2.0, *, valid: bool = True, share: float = 0.1
) -> list[ComparedFigure]:
    """The cells of a report, each measured as `times` what was published of a `share` of its
    rows; None: not measured."""
    if times is None:
        return cells(REPRODUCTIONS[name], {}, known=registry.names())
    rows = [round(int(figure.params.get("rows", 10)) * share) for figure in figures(name)]
    return [
        ComparedFigure(figure, figure.value * times, times, valid, (), loaded)
        for figure, loaded in zip(figures(name), rows, strict=True)
    ]


def drawing(report: str, name: str) -> Drawing:
    return next(one for one in DRAWINGS[report] if one.name == name)


def drawn(report: str, name: str, held: Sequence[ComparedFigure] | None = None) -> Plot:
    held = found(report) if held is None else held
    return plot(drawing(report, name), REPRODUCTIONS[report], held, {})


def series(one: Plot, system: str, *, published: bool) -> list[Dot]:
    return [dot for dot in one.dots if dot.system == system and dot.published == published]


def page(report: str, held: Sequence[ComparedFigure]) -> Report:
    return build(REPRODUCTIONS[report], held, ABOUT, {})


@pytest.mark.parametrize(("name", "one"), EVERY)
def test_every_drawing_is_of_figures_that_there_are(name: str, one: Drawing) -> None:
    report = REPRODUCTIONS[name]
    assert one.about in {figure.experiment for figure in figures(name)}
    assert set(one.stores) <= {figure.store for figure in figures(name)}
    shown = plot(one, report, found(name, None), {})
    assert shown.dots or one.curve is not None
    assert all(dot.published for dot in shown.dots)
    if one.curve is not None:
        part = next(part for part in report.parts if part.name == one.curve.part)
        assert one.curve.experiment in {ask.experiment for ask in part.asks}
    assert len({(d.system, d.part, d.at, d.x) for d in shown.dots}) == len(shown.dots), (
        "two figures at one place of one series"
    )


def test_a_tradeoff_is_of_two_metrics_of_one_search() -> None:
    one = drawn("docarray-sift1m", "qps-recall")
    figure = {
        f.metric: f.value
        for f in figures("docarray-sift1m")
        if f.store == "AnnLite"
        and (f.params.get("m"), f.params.get("ef_construction"), f.params.get("ef_search"))
        == (16, 128, 64)
    }
    (dot,) = (dot for dot in series(one, "AnnLite", published=True) if dot.at == "64")
    assert (dot.x, dot.value) == (figure["recall"], pytest.approx(1e3 / figure["find_by_vector"]))
    (dot,) = (dot for dot in series(one, "AnnLite", published=False) if dot.at == "64")
    assert dot.value == pytest.approx(0.5e3 / figure["find_by_vector"])
    assert [len(series(one, "AnnLite", published=of)) for of in (True, False)] == [4, 4]


@pytest.mark.parametrize("name", NAMES)
def test_drawings_have_names_of_their_own(name: str) -> None:
    names = [one.name for one in DRAWINGS[name]]
    assert len(set(names)) == len(names)


def test_every_numbered_figure_with_numbers_is_drawn() -> None:
    """Of every figure that the published file names as a source there is a drawing."""
    sources = " ".join(figure.source for figure in figures("milvus-weaviate"))
    told = " ".join(one.source for one in DRAWINGS["milvus-weaviate"])
    for number in range(7, 27):
        if f"figure {number}" in sources:
            assert f"igure {number}" in told, f"figure {number}"


def test_a_series_is_the_published_one_and_the_measured_one_beside_it() -> None:
    one = drawn("milvus-weaviate", "qps-clients-glove")
    assert one.systems == ("Milvus", "Weaviate")
    theirs = series(one, "Milvus", published=True)
    ours = series(one, "Milvus", published=False)
    assert [(dot.x, dot.value) for dot in theirs] == [
        (1, 130.8), (8, 425.2), (16, 425.9), (32, 385.0),
    ]  # fmt: skip
    assert [(dot.x, dot.value) for dot in ours] == [(x, 2 * value) for x, value in (
        (1, 130.8), (8, 425.2), (16, 425.9), (32, 385.0),
    )]  # fmt: skip


def test_what_was_loaded_stands_at_its_own_number_of_rows() -> None:
    one = drawn("milvus-weaviate", "ingest-glove")
    assert [d.x for d in series(one, "Milvus", published=True)] == [10_000, 100_000, 1_183_514]
    assert [d.x for d in series(one, "Milvus", published=False)] == [1_000, 10_000, 118_351]


def test_mb_per_s_is_rows_times_their_bytes() -> None:
    one = drawn("milvus-weaviate", "mb-per-s")
    assert [dot.at for dot in series(one, "Milvus", published=True)] == [
        "GloVe-100", "arXiv titles", "H&M",
    ]  # fmt: skip
    theirs = {dot.at: dot.value for dot in series(one, "Milvus", published=True)}
    assert theirs["GloVe-100"] == pytest.approx(1487.9 * 100 * 4 / 1e6)
    # Read off its figure 12, in 2^20 bytes: 0.57, 0.91 and 1.08.
    read = {"GloVe-100": 0.57, "H&M": 0.91, "arXiv titles": 1.08}
    assert {at: value * 1e6 / 2**20 for at, value in theirs.items()} == pytest.approx(
        read, abs=0.01
    )


def test_shares_add_up() -> None:
    one = drawn("milvus-weaviate", "load-share")
    whole: dict[tuple[str, bool], float] = {}
    for dot in one.dots:
        whole[dot.at, dot.published] = whole.get((dot.at, dot.published), 0.0) + dot.value
    assert list(whole.values()) == pytest.approx([100.0] * 6)
    full = [d for d in one.dots if d.published and d.at == "1,183,514 rows"]
    assert {d.part: round(d.value, 1) for d in full} == {"load": 13.9, "index": 86.1}
    ours = {d.at for d in one.dots if not d.published}
    assert ours == {"1,000 rows", "10,000 rows", "118,351 rows"}, "what was loaded"


def test_per_row_is_of_the_rows_of_that_load() -> None:
    one = drawn("milvus-weaviate", "storage", found("milvus-weaviate", 0.1, share=0.1))
    for system in one.systems:
        theirs, ours = (series(one, system, published=of) for of in (True, False))
        assert [d.value for d in ours] == pytest.approx([d.value for d in theirs], rel=0.01)
    full = series(one, "Milvus", published=True)[2]
    assert full.value == pytest.approx(2620e6 / 1_183_514 / 1000), "kB a row"
    assert any("read off" in remark for remark in one.remarks)


def test_recalls_of_a_figure_are_not_rounded_up() -> None:
    one = drawn("docarray-sift1m", "recall-ef", found("docarray-sift1m", 1.0))
    ours, theirs = (Dot("Redis", of, "32", 32.0, 0.99996) for of in (False, True))
    assert one.label(ours) == "0.9999"
    assert one.label(replace(theirs, value=0.988)) == "0.988", "as it was printed"
    rates = drawn("milvus-weaviate", "qps-clients-glove")
    assert rates.label(replace(ours, value=0.99996)) == "1.000"


def test_a_figure_says_on_how_many_rows_where_its_marks_do_not() -> None:
    held = found("docarray-sift1m", 1.0)
    captions = {one.name: one.caption for one in page("docarray-sift1m", held).figures()}
    assert "Measured on 100,000 rows instead of 1,000,000." in captions["recall-ef"]
    held = found("docarray-sift1m", 1.0, share=1.0)
    captions = {one.name: one.caption for one in page("docarray-sift1m", held).figures()}
    assert "Measured on" not in captions["recall-ef"]


def test_a_line_is_told_along_its_axis() -> None:
    figure = next(
        f for f in page("milvus-weaviate", found("milvus-weaviate")).figures()
        if f.name == "grid-milvus"
    )  # fmt: skip
    told = figure.alt.split("ef 128, published: ")[1].split(";")[0]
    assert [one.rpartition(" ")[2] for one in told.split(", ")] == ["1", "8", "16", "32"]


def test_shards_are_series_of_their_own() -> None:
    one = drawn("milvus-weaviate", "sharded-weaviate")
    assert one.systems == ("standalone", "two shards")
    assert [d.value for d in series(one, "two shards", published=True)] == [
        60.7, 223.3, 207.3, 177.4,
    ]  # fmt: skip


def test_units_of_time_are_brought_together() -> None:
    one = drawn("aistor-index", "index-time")
    assert {dot.at: dot.value for dot in one.dots if dot.published} == {"CPU": 120.0, "GPU": 4.0}


def test_what_is_invalid_is_not_drawn_but_listed_with_its_reason() -> None:
    held = found("milvus-weaviate")
    held = [
        replace(cell, valid=False, why="client-bound")
        if cell.figure.params.get("clients") == 8
        else cell
        for cell in held
    ]
    one = drawn("milvus-weaviate", "qps-clients-glove", held)
    assert [dot.x for dot in series(one, "Milvus", published=False)] == [1, 16, 32]
    assert [dot.x for dot in series(one, "Milvus", published=True)] == [1, 8, 16, 32]
    assert [(m.system, m.why, m.at) for m in one.missing] == [
        ("Milvus", "invalid: client-bound", ("8",)),
        ("Weaviate", "invalid: client-bound", ("8",)),
    ]
    shown = next(f for f in page("milvus-weaviate", held).figures() if f.name == one.drawing.name)
    assert shown.notes == (
        "Not drawn: Milvus at 8: invalid: client-bound.",
        "Not drawn: Weaviate at 8: invalid: client-bound.",
    )


@pytest.mark.parametrize("name", NAMES)
def test_without_a_run_the_published_figures_are_drawn_and_say_so(name: str) -> None:
    report = page(name, found(name, None))
    for figure in report.figures():
        assert "Nothing of it was measured here." in figure.caption
        assert figure.notes
        assert "published" in figure.alt
    left = {block.title for s in report.sections for block in s.blocks if isinstance(block, Text)}
    for one in DRAWINGS[name]:
        shown = any(figure.name == one.name for figure in report.figures())
        assert shown or any(one.title in title for title in left)


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_followed_by_its_data(name: str) -> None:
    for section in page(name, found(name)).sections:
        for figure, after in zip(section.blocks, section.blocks[1:], strict=False):
            if isinstance(figure, Figure):
                assert isinstance(after, Table)
                assert after.name == f"data-{figure.name}"
                assert after.rows


@pytest.mark.parametrize("name", NAMES)
def test_the_tables_hold_every_cell(name: str) -> None:
    held = found(name)
    report = page(name, held)
    values = [
        (row.cells[i].value, row.cells[i + 1].value)
        for table in report.tables()
        for row in table.rows
        for i, column in enumerate(table.columns)
        if column.key.endswith("_published") and row.cells[i].value is not None
    ]
    assert sorted(values) == sorted((c.figure.value, c.measured) for c in held)


def test_published_and_measured_look_alike_but_are_told_apart() -> None:
    palette = Palette(("Milvus", "Weaviate"))
    ours, theirs = (palette.series("Weaviate", of) for of in (False, True))
    assert palette.like[theirs] == ours
    first, second = (int(colour(s.store, palette.stores)[1:], 16) for s in (ours, theirs))
    assert first != second, "the legend lights up one of them"
    assert first ^ second == 1, "by less than can be seen"


@pytest.mark.parametrize("width", [draw.WIDE, draw.NARROW])
@pytest.mark.parametrize("name", ["milvus-weaviate", "aistor-index"])
def test_every_kind_of_chart_is_drawn_with_all_its_marks(name: str, width: int) -> None:
    report = page(name, found(name))
    kinds = set()
    for figure in report.figures():
        one = drawn(name, figure.name)
        if one.drawing.kind in kinds:
            continue
        kinds.add(one.drawing.kind)
        assert draw.svg(figure, width, legend=False).count("graphics-symbol") >= len(one.dots)
    assert kinds
