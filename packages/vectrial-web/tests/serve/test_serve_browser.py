"""The pages in a real browser: accessible, by keyboard, on a phone, while a run is under way."""

from __future__ import annotations

import http.client
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from browser import Browser
from page_checks import (
    DESKTOP,
    LOOKS,
    NEEDS_BROWSER,
    PHONE,
    checker,
    run_address,
    served,
    violations,
)
from priced_runs import priced_run
from served_pages import TOKEN
from synthetic_runs import write_run

from vectrial.results.progress import Status, write_status
from vectrial.results.writer import RunWriter
from vectrial.testing.server_programs import MUST_RUN

pytestmark = NEEDS_BROWSER


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs to look at, the newest last. The first is that of the test of a run under way: no other
    looks at its report, which would be kept."""
    root = tmp_path_factory.mktemp("runs")
    stores = {"faiss": (1.0, "hnsw", True), "hnswlib": (0.7, "hnsw", False)}
    for name in ("fourth", "first", "second", "third"):
        write_run(root / name, stores=stores, efs=(16, 64), builds=((16, 128),))
    return root


@pytest.fixture(scope="module")
def address(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(root, tmp_path_factory.mktemp("home")) as found:
        yield found


@pytest.fixture(scope="module")
def guarded(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same, where the token is asked for."""
    with served(root, tmp_path_factory.mktemp("home"), TOKEN) as found:
        yield found


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of two runs with capacity, costs and servers, and of two that are under way: one
    that tells how far it is, and one that another process merely has open."""
    root = tmp_path_factory.mktemp("apart")
    priced_run().write(root / "priced")
    priced_run().write(root / "again")
    now = time.time()
    status = Status(
        pid=os.getpid(), began=now, updated=now, trials=9, done=2, number=1, jobs=2,
        job="redis hnsw glove-words-100", what="warming up", part_done=1.0, part_of=4.0,
        live="1,000 QPS, p99 3.1 ms", recent=("faiss ended: 1,000 QPS", "hnswlib ended"),
    )  # fmt: skip
    with RunWriter(root / "under-way"), RunWriter(root / "opened"):
        write_status(root / "under-way", status)
        with served(root, tmp_path_factory.mktemp("home")) as found:
            yield found


@pytest.mark.parametrize(
    ("named", "end"), [("redis,axe", pytest.fail.Exception), ("redis", pytest.skip.Exception)]
)
def test_a_checker_that_must_run_is_not_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, end: type[BaseException]
) -> None:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(MUST_RUN, named)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(end, match="npm"):
        checker(tmp_path)


PAGES = ["/", "/?store=faiss", "/compare", "compare", "run", "trials", "trial", "values", "missing"]


@LOOKS
@pytest.mark.parametrize("page", PAGES)
def test_page(
    chromium: Browser, address: str, axe: str, page: str, size: tuple[int, int], dark: bool
) -> None:
    run = run_address(chromium, address, "first")
    name = run.rpartition("/")[2]
    url = {
        "compare": f"{address}/compare?a={name}:faiss&b={name}:memory",
        "run": run,
        "trials": f"{run}/trials",
        "trial": f"{run}/trials/1",
        "values": f"{run}/values?metric=qps&phases=1,2,3",
        "missing": f"{address}/runs/none",
    }.get(page, f"{address}{page}")
    chromium.open(url, *size, dark=dark)
    chromium.wait_for("document.title !== ''")
    # What the browser says of a page that is not there is no complaint.
    assert chromium.complaints() == [] or page == "missing"
    assert all(one.startswith(f"{address}/") for one in chromium.requests())
    assert chromium.value("document.documentElement.scrollWidth") <= size[0]
    assert violations(chromium, axe) == []


#: Of the pages of `apart` what they show, which is waited for.
APART = {
    "/": "2 of 9",
    "under-way": "Job 1 of 2",
    "opened": "Under way",
    "priced": "What it cost the server",
    "trial": "Parameters",
    "compare": "B against A",
    "values": "Where this is from",
    "read": "read off at a recall",
}


@LOOKS
@pytest.mark.parametrize("page", APART)
def test_page_of_a_run_under_way_or_with_servers_and_costs(
    chromium: Browser, apart: str, axe: str, page: str, size: tuple[int, int], dark: bool
) -> None:
    named = {"under-way": "under-way", "opened": "opened"}.get(page, "priced")
    run = run_address(chromium, apart, named)
    name, twin = run.rpartition("/")[2], ""
    if page == "compare":
        twin = run_address(chromium, apart, "again").rpartition("/")[2]
    url = {
        "/": f"{apart}/",
        "trial": f"{run}/trials/1",
        "compare": f"{apart}/compare?a={name}:redis&b={twin}:redis",
        "values": f"{run}/values?metric=sustained_qps&phases=4,17,30",
        "read": f"{run}/values?metric=qps&phases=4,17,30&recall=0.96",
    }.get(page, run)
    chromium.open(url, *size, dark=dark)
    chromium.wait_for(f"document.body.innerText.includes({APART[page]!r})")
    assert chromium.complaints() == []
    assert chromium.value("document.documentElement.scrollWidth") <= size[0]
    assert violations(chromium, axe) == []


@LOOKS
def test_the_token_is_typed_into_the_form(
    chromium: Browser, guarded: str, axe: str, size: tuple[int, int], dark: bool
) -> None:
    chromium.open(f"{guarded}/compare", *size, dark=dark)
    assert chromium.value("location.pathname") == "/login"
    assert chromium.value("document.documentElement.scrollWidth") <= size[0]
    assert violations(chromium, axe) == []
    chromium.value(f"document.querySelector('[name=token]').value = {TOKEN!r}")
    chromium.value("document.querySelector('.filter button').click()")
    chromium.wait_for("location.pathname === '/compare'", timeout_s=120)
    chromium.open(f"{guarded}/", *size, dark=dark)
    chromium.value("document.querySelector('.leave button').click()")
    chromium.wait_for("location.pathname === '/login'", timeout_s=120)
    chromium.open(f"{guarded}/", *size, dark=dark)
    assert chromium.value("location.pathname") == "/login", "the session is over"


def test_a_page_that_is_open_when_the_session_ends(chromium: Browser, guarded: str) -> None:
    chromium.open(f"{guarded}/", *DESKTOP, dark=False)
    chromium.value(f"document.querySelector('[name=token]').value = {TOKEN!r}")
    chromium.value("document.querySelector('.filter button').click()")
    chromium.wait_for("!!document.getElementById('runs')", timeout_s=120)
    chromium.value("fetch('/logout', {method: 'POST'}).then(() => 0)")
    chromium.wait_for("location.pathname === '/login'", timeout_s=120)


def focused(chromium: Browser, wanted: str, most: int = 60) -> None:
    """Press Tab until what matches a selector has the focus."""
    for _ in range(most):
        chromium.key("Tab")
        if chromium.value(f"document.activeElement.matches({wanted!r})"):
            assert chromium.value("document.activeElement.matches(':focus-visible')")
            return
    raise AssertionError(f"Tab does not lead to {wanted}")


def test_by_keyboard(chromium: Browser, address: str) -> None:
    run_address(chromium, address, "first")
    chromium.key("Tab")
    assert chromium.value("document.activeElement.className") == "skip"
    for row in (1, 2):
        focused(chromium, f".runs tbody tr:nth-child({row}) input")
        chromium.key("Space")
    assert chromium.value("document.querySelectorAll('.runs input:checked').length") == 2
    chromium.open(f"{address}/", *DESKTOP, dark=False)
    focused(chromium, ".runs tbody tr:first-child a")
    chromium.key("Enter")
    chromium.wait_for("location.pathname.startsWith('/runs/') && !!document.querySelector('.part')")
    focused(chromium, "td a.v", 400)
    chromium.key("Enter")
    chromium.wait_for("location.pathname.endsWith('/values')")
    focused(chromium, "td a.v")
    chromium.key("Enter")
    chromium.wait_for("/trials.[0-9]+$/.test(location.pathname)")
    assert chromium.complaints() == []


def test_two_runs_are_chosen_and_compared(chromium: Browser, address: str) -> None:
    run_address(chromium, address, "first")
    boxes = "[...document.querySelectorAll('.runs tbody input')]"
    chromium.value(f"{boxes}.slice(0, 2).forEach((box) => box.click())")
    chromium.value("document.querySelector('.over button').click()")
    chromium.wait_for("location.pathname === '/compare' && !!document.querySelector('.cards')")
    assert "B against A" in chromium.value("document.body.innerText")


def test_the_list_keeps_its_order_when_it_is_renewed(
    chromium: Browser, address: str, root: Path
) -> None:
    run_address(chromium, address, "first")
    small = "[...document.querySelectorAll('.runs .pick small')]"
    names = f"{small}.map((one) => one.textContent).join()"
    shown = "document.getElementById('runs').innerText"
    now = time.time()
    status = Status(pid=os.getpid(), began=now, updated=now, trials=9, done=2)
    button = "document.querySelector('.runs th button')"
    try:
        for sort, order in (
            ("ascending", "first,fourth,second,third"),
            ("descending", "third,second,fourth,first"),
        ):
            chromium.value(f"{button}.click()")
            assert chromium.value(f"{button}.parentElement.ariaSort") == sort
            assert chromium.value(names) == order
            (root / "third" / "progress.json").unlink(missing_ok=True)
            chromium.wait_for(f"!{shown}.includes('under way')", timeout_s=120)
            write_status(root / "third", status)
            chromium.wait_for(f"{shown}.includes('under way')", timeout_s=120)
            assert chromium.value(f"{button}.parentElement.ariaSort") == sort
            assert chromium.value(names) == order
    finally:
        (root / "third" / "progress.json").unlink(missing_ok=True)
    assert chromium.complaints() == []


def test_a_page_too_many_says_that_it_stands_still(chromium: Browser, address: str) -> None:
    host = address.partition("//")[2]
    chromium.open("about:blank", *PHONE, dark=False)
    deadline, told = time.monotonic() + 120, 0
    with ExitStack() as held:
        while told < 32:  # those that left a moment ago may still be counted
            one = held.enter_context(closing(http.client.HTTPConnection(host, timeout=60)))
            one.request("GET", "/events")
            answer = held.enter_context(one.getresponse())
            assert answer.status == 200
            assert time.monotonic() < deadline
            told += answer.readline() == b"retry: 3000\n"
        chromium.open(f"{address}/", *PHONE, dark=False)
        chromium.wait_for(
            "document.getElementById('runs').innerText.includes('stands still')", timeout_s=120
        )
        assert chromium.value("document.documentElement.scrollWidth") <= PHONE[0]


def test_a_run_under_way_tells_how_far_it_is(chromium: Browser, address: str, root: Path) -> None:
    page = run_address(chromium, address, "fourth")
    now = time.time()
    status = Status(pid=os.getpid(), began=now, updated=now, trials=9, done=2, what="warming up")
    with RunWriter(root / "fourth"):
        write_status(root / "fourth", status)
        chromium.open(page, *PHONE, dark=True)
        shown = "document.getElementById('top').innerText"
        chromium.wait_for(f"{shown}.includes('2 of 9')")
        assert chromium.value("document.documentElement.scrollWidth") <= PHONE[0]
        write_status(root / "fourth", status.model_copy(update={
            "done": 3, "job": "<b>faiss</b>", "number": 1, "jobs": 2, "part_done": 1.0,
            "part_of": 4.0, "live": "1,000 QPS", "recent": ("one", "two"),
        }))  # fmt: skip
        chromium.wait_for(f"{shown}.includes('3 of 9')")
        for said in ("Job 1 of 2: <b>faiss</b>", "25 %", "1,000 QPS", "two\none"):
            assert said in chromium.value(shown)
        assert chromium.complaints() == []
        # Its last words are said before its database is closed: the page is made anew meanwhile.
        chromium.value("window.before = 1")
        write_status(root / "fourth", status.model_copy(update={"ended": True}))
        chromium.wait_for(
            f"window.before === undefined && {shown}.includes('Under way')", timeout_s=120
        )
    chromium.wait_for("!!document.querySelector('.part')", timeout_s=120)
    assert chromium.complaints() == []
