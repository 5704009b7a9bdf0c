"""The page in a real browser: phone and desktop, light and dark, offline, by keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser, browser
from written_reports import Written

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None, reason="Chromium is not installed: apt-get install -y chromium"
    ),
]

PHONE, DESKTOP = (390, 844), (1440, 900)
SIZES = [pytest.param(PHONE, id="phone"), pytest.param(DESKTOP, id="desktop")]

#: Relative luminance of what lies behind the text, from 0 to 255.
GROUND = """(() => {
  const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
})()"""
SHOWN = (
    """[...document.querySelectorAll('.drawing > svg')].filter((svg) => svg.checkVisibility())"""
)
MARKS = '[role="graphics-symbol"][aria-label]:not([aria-roledescription="axis"])'


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


def url(written: Written) -> str:
    return (written.out / "report.html").as_uri()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_page(
    chromium: Browser, written: Written, tmp_path: Path, size: tuple[int, int], dark: bool
) -> None:
    chromium.open(url(written), *size, dark)
    assert chromium.complaints() == []
    assert chromium.requests() == [url(written)], "the page asked for something else"
    assert chromium.value("document.documentElement.scrollWidth") <= size[0]
    ground = chromium.value(GROUND)
    assert ground < 60 if dark else ground > 200

    boxes = chromium.value(
        f"{SHOWN}.map((svg) => {{ const b = svg.getBoundingClientRect();"
        f" return [b.left, b.right, b.height, svg.querySelectorAll('{MARKS}').length]; }})"
    )
    assert len(boxes) == len(written.report.figures()), "one drawing of each figure is shown"
    for left, right, height, marks in boxes:
        assert left >= 0
        assert right <= size[0]
        assert height > 50
        assert marks > 0
    shot = tmp_path / "page.png"
    chromium.screenshot(shot)
    assert shot.stat().st_size > 20_000


@pytest.mark.parametrize("size", SIZES)
def test_colours_of_marks_resolve(
    chromium: Browser, written: Written, size: tuple[int, int]
) -> None:
    script = """[...new Set([...document.querySelectorAll('.drawing [fill^="var("]')]
      .map((mark) => getComputedStyle(mark).fill))]"""
    chromium.open(url(written), *size, dark=False)
    light = set(chromium.value(script))
    chromium.open(url(written), *size, dark=True)
    dark = set(chromium.value(script))
    assert len(light) >= len(written.report.stores) - 2
    assert "rgb(0, 0, 0)" not in light | dark, "a variable that is not defined draws black"
    assert not light & dark


def test_theme_button_turns_the_page_over(chromium: Browser, written: Written) -> None:
    chromium.open(url(written), *DESKTOP, dark=False)
    try:
        assert chromium.value(GROUND) > 200
        chromium.value("document.getElementById('theme').click()")
        assert chromium.value(GROUND) < 60
        chromium.open(url(written), *DESKTOP, dark=False)
        assert chromium.value(GROUND) < 60, "the choice is remembered"
    finally:
        chromium.value("localStorage.clear()")
    assert chromium.complaints() == []


def test_tooltip_under_the_pointer(chromium: Browser, written: Written) -> None:
    chromium.open(url(written), *DESKTOP, dark=False)
    at = chromium.value(
        f"(() => {{ const mark = {SHOWN}[0].querySelector('{MARKS}');"
        " mark.scrollIntoView({block: 'center', behavior: 'instant'});"
        " const b = mark.getBoundingClientRect();"
        " return {x: b.left + b.width / 2, y: b.top + b.height / 2}; })()"
    )
    # Scrolling takes the tip away, and is told with the next frame.
    chromium.value("new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(0))))")
    chromium.call("Input.dispatchMouseEvent", type="mouseMoved", **at)
    chromium.wait_for("!document.getElementById('tip').hidden")
    said = chromium.value("document.getElementById('tip').innerText")
    for part in ("recall", "qps", "p99", "repeats"):
        assert part in said


def test_charts_answer_to_the_keyboard(chromium: Browser, written: Written) -> None:
    chromium.open(url(written), *DESKTOP, dark=False)
    chromium.value(f"{SHOWN}[0].focus({{preventScroll: true}})")
    chromium.key("ArrowRight")
    first = chromium.value("document.getElementById('tip').innerText")
    chromium.key("ArrowRight")
    second = chromium.value("document.getElementById('tip').innerText")
    assert "recall" in first
    assert first != second
    chromium.key("Escape")
    assert chromium.value("document.getElementById('tip').hidden")


def test_legend_and_sorting(chromium: Browser, written: Written) -> None:
    chromium.open(url(written), *DESKTOP, dark=False)
    faded = "document.querySelectorAll('figure .dimmed').length"
    assert chromium.value(faded) == 0
    chromium.value("document.querySelector('.legend button').click()")
    assert chromium.value(faded) > 0
    chromium.value("document.querySelector('.legend button').click()")
    assert chromium.value(faded) == 0
    column = """[...document.querySelector('#glance table').tBodies[0].rows]
      .map((row) => row.cells[1].dataset.v).filter(Boolean).map(Number)"""
    before = chromium.value(column)
    chromium.value("document.querySelectorAll('#glance th button')[1].click()")
    after = chromium.value(column)
    assert after == sorted(before)
    assert after != before
    assert chromium.complaints() == []


def test_tables_show_that_there_is_more(chromium: Browser, written: Written) -> None:
    chromium.open(url(written), *PHONE, dark=False)
    box = "document.querySelector('#glance .scroll')"
    fades = f"{box}.classList.contains('right')"
    chromium.wait_for(fades)
    chromium.value(f"{box}.scrollLeft = {box}.scrollWidth")
    chromium.wait_for(f"!{fades}")
    assert chromium.value("document.querySelectorAll('.scroll.tall.down').length") > 0
    assert chromium.complaints() == []


def test_print_is_light_and_shows_whole_tables(chromium: Browser, written: Written) -> None:
    chromium.open(url(written), *DESKTOP, dark=True)
    chromium.call("Emulation.setEmulatedMedia", media="print")
    assert chromium.value(GROUND) > 200
    assert chromium.value("document.querySelectorAll('.scroll.tall').length") > 0
    assert chromium.value(
        "[...document.querySelectorAll('.scroll.tall')].every((box) =>"
        " box.offsetHeight >= box.firstElementChild.offsetHeight - 1)"
    )


def test_without_scripts_the_page_still_says_everything(
    chromium: Browser, written: Written
) -> None:
    chromium.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        chromium.open(url(written), *PHONE, dark=True)
        shot = written.out / "no-script.png"
        chromium.screenshot(shot)
        assert shot.stat().st_size > 20_000
        assert chromium.complaints() == []
    finally:
        chromium.call("Emulation.setScriptExecutionDisabled", value=False)
