"""A site in a real browser, from the disk and without a network: accessible, on a phone, filtered
and compared in the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, browser
from page_checks import DESKTOP, LOOKS, NEEDS_BROWSER, checker, violations
from site_pages import Built

pytestmark = NEEDS_BROWSER

PAGES = [
    "index.html",
    "questions/fastest.html",
    "questions/power-cuts.html",
    "stores/weaviate.html",
    "datasets/glove-words-50-20k.html",
    "versions.html",
    "runs.html",
    "runs/demo/index.html",
    "runs/demo/values-1.html",
]
POINTS = "datasets/glove-words-50-20k.html"
ROWS = "[...document.querySelectorAll('#table-points tbody tr')].filter((row) => !row.hidden)"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as page:
        page.call(
            "Network.emulateNetworkConditions",
            offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1,
        )  # fmt: skip
        yield page


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    return checker(tmp_path_factory.mktemp("axe"))


def url(site: Built, page: str) -> str:
    return (site.folder / page).as_uri()


@LOOKS
@pytest.mark.parametrize("page", PAGES)
def test_page(
    chromium: Browser, site: Built, axe: str, page: str, size: tuple[int, int], dark: bool
) -> None:
    chromium.open(url(site, page), *size, dark=dark)
    assert chromium.complaints() == []
    asked = [one for one in chromium.requests() if not one.startswith("data:")]
    assert asked == [url(site, page)], "the page asked for something else"
    assert chromium.value("document.documentElement.scrollWidth") <= size[0]
    assert violations(chromium, axe) == []


def test_a_deep_link_filters_the_table(chromium: Browser, site: Built) -> None:
    chromium.open(url(site, POINTS), *DESKTOP, dark=False)
    every = chromium.value(f"{ROWS}.length")
    link = "#table-points?store=faiss&recall_mean=0.99&latency_p99=1"
    chromium.open(url(site, "index.html"), *DESKTOP, dark=False)
    chromium.open(url(site, POINTS) + link, *DESKTOP, dark=False)
    shown = chromium.value(
        f"{ROWS}.map((row) => [row.cells[0].querySelector('.v').textContent,"
        " Number(row.cells[1].dataset.v), Number(row.cells[4].dataset.v)])"
    )
    assert 0 < len(shown) < every
    for store, recall, p99_us in shown:
        assert store == "faiss"
        assert recall >= 0.99
        assert p99_us <= 1000
    assert chromium.value("document.querySelector('.sift select').value") == "faiss"


def test_a_choice_in_the_page_is_kept_in_its_address(chromium: Browser, site: Built) -> None:
    chromium.open(url(site, POINTS), *DESKTOP, dark=False)
    chromium.value(
        "(() => { const select = document.querySelector('#table-points .sift select');"
        " select.value = 'hnswlib';"
        " select.dispatchEvent(new Event('input', { bubbles: true })); })()"
    )
    assert chromium.value("location.hash") == "#table-points?store=hnswlib"
    stores = f"[...new Set({ROWS}.map((row) => row.cells[0].querySelector('.v').textContent))]"
    assert chromium.value(stores) == ["hnswlib"]
    chromium.value("document.querySelector('#table-points .sift button').click()")
    assert chromium.value("location.hash") == "#table-points"
    assert len(chromium.value(stores)) > 3


def test_two_rows_are_shown_side_by_side(
    chromium: Browser, site: Built, axe: str, tmp_path: Path
) -> None:
    chromium.open(url(site, "index.html"), *DESKTOP, dark=False)
    chromium.open(url(site, POINTS) + "#table-points?beside=1,4", *DESKTOP, dark=False)
    cells = chromium.value(
        "[...document.querySelectorAll('.beside tr')].map((row) =>"
        " [...row.cells].map((cell) => cell.firstChild.textContent))"
    )
    rows = chromium.value(
        "[1, 4].map((n) => document.querySelector(`#table-points tr[data-n='${n}']`))"
        ".map((row) => row.cells[2].querySelector('.v').textContent)"
    )
    assert ["QPS", *rows] in cells
    assert violations(chromium, axe) == []
    for tick in ("1", "4"):
        chromium.value(f"document.querySelector(\"tr[data-n='{tick}'] .tick\").click()")
    assert chromium.value("document.querySelector('.beside').hidden")


def test_every_row_is_there_without_a_script(chromium: Browser, site: Built) -> None:
    chromium.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        chromium.open(url(site, POINTS), *DESKTOP, dark=False)
    finally:
        chromium.call("Emulation.setScriptExecutionDisabled", value=False)
    assert chromium.value("document.querySelectorAll('#table-points tbody tr').length") > 10
    assert chromium.value("document.querySelector('.sift')") is None
