"""The page of a reproduction in a real browser: phone and desktop, light and dark, offline."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import CHROMIUM, Browser, browser

from vectrial.document.blocks import Report
from vectrial.document.render import export
from vectrial_reproduce.reports import REPRODUCTIONS
from vectrial_reproduce.reports.collect import ComparedFigure
from vectrial_reproduce.reports.conditions import LoadedData, ReportConditions
from vectrial_reproduce.reports.page import build
from vectrial_reproduce.reports.published import figures

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None, reason="Chromium is not installed: apt-get install -y chromium"
    ),
]

NAME = "milvus-weaviate"
SHOWN = (
    """[...document.querySelectorAll('.drawing > svg')].filter((svg) => svg.checkVisibility())"""
)
#: A figure with one of its series switched on: the classes of its marks by stroke.
LIT = """[...new Set([...document.querySelectorAll(
  '#qps-clients-glove .drawing.wide [aria-roledescription="point"]')]
  .filter((mark) => !mark.classList.contains('dimmed'))
  .map((mark) => mark.getAttribute('stroke')))]"""


@pytest.fixture(scope="module")
def made() -> Report:
    """Every published figure with something beside it, but for one client-bound point."""
    cells = [
        ComparedFigure(
            f, f.value * 0.5, 0.5, f.params.get("clients") != 8, (f.note,), 500, "", "client-bound"
        )
        for f in figures(NAME)
    ]
    about = ReportConditions(0.1, "a machine", (LoadedData("GloVe-100", "some", 500, 1_183_514),))
    return build(REPRODUCTIONS[NAME], cells, about, {})


@pytest.fixture(scope="module")
def address(made: Report, tmp_path_factory: pytest.TempPathFactory) -> str:
    return export.write_html(made, tmp_path_factory.mktemp("page")).as_uri()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [(390, 844), (1280, 900)], ids=["phone", "desktop"])
def test_page(
    chromium: Browser, made: Report, address: str, size: tuple[int, int], dark: bool
) -> None:
    chromium.open(address, *size, dark)
    assert chromium.complaints() == []
    assert chromium.requests() == [address], "the page asked for something else"
    assert chromium.value("document.documentElement.scrollWidth") <= size[0]
    boxes = chromium.value(
        f"{SHOWN}.map((svg) => {{ const b = svg.getBoundingClientRect();"
        " return [b.left, b.right, b.height, svg.getAttribute('aria-label')]; })"
    )
    assert len(boxes) == len(made.figures()) >= 20
    for left, right, height, label in boxes:
        assert left >= 0
        assert right <= size[0]
        assert height > 50
        assert "published" in label
    ids = chromium.value("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(set(ids)) == len(ids)


def test_data_of_a_figure_is_under_it(chromium: Browser, made: Report, address: str) -> None:
    chromium.open(address, 1280, 900, dark=False)
    folded = "document.querySelectorAll('figure + .folded > details').length"
    assert chromium.value(folded) == len(made.figures())
    table = "document.querySelector('#table-data-qps-clients-glove table')"
    assert not chromium.value(f"{table}.checkVisibility()")
    chromium.value("document.querySelector('#table-data-qps-clients-glove summary').click()")
    assert chromium.value(f"{table}.checkVisibility()")
    assert chromium.value(f"{table}.tBodies[0].rows.length") == 8 + 6, "two at 8 are not drawn"
    said = chromium.value("document.querySelector('#qps-clients-glove figcaption').innerText")
    assert "Not drawn: Milvus at 8: invalid: client-bound." in said


def test_the_legend_tells_published_from_measured(chromium: Browser, address: str) -> None:
    chromium.open(address, 1280, 900, dark=False)
    assert len(chromium.value(LIT)) == 4
    names = chromium.value(
        "[...document.querySelectorAll('#qps-clients-glove .legend button')]"
        ".map((one) => one.innerText.trim())"
    )
    assert names == [
        f"{store}, {of}" for store in ("Milvus", "Weaviate") for of in ("published", "measured")
    ]
    chromium.value("document.querySelectorAll('#qps-clients-glove .legend button')[1].click()")
    assert len(chromium.value(LIT)) == 1
    hollow = chromium.value(
        "[...document.querySelectorAll('#qps-clients-glove .legend path')]"
        ".map((one) => one.getAttribute('fill') === 'none')"
    )
    assert hollow == [True, False, True, False]
