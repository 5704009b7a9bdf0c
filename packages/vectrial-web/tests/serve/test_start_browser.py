"""The pages that start, stop and continue runs, in a real browser."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import psutil
import pytest
from browser import Browser
from page_checks import DESKTOP, LOOKS, NEEDS_BROWSER, run_address, served, violations
from small_suite import TINY
from synthetic_runs import write_run

from vectrial.results.progress import Status, write_status
from vectrial.results.writer import RunWriter
from vectrial_web.serve.launcher import StartedProcess

pytestmark = NEEDS_BROWSER


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of a suite and of a run that was interrupted."""
    root = tmp_path_factory.mktemp("idle")
    (root / "tiny.toml").write_text(TINY)
    run = write_run(
        root / "interrupted", stores={"memory": (1.0, "flat", True)}, efs=(16,),
        builds=((16, 128),), only_sweep=True,
    )  # fmt: skip
    (run / "suite.toml").write_text(TINY)
    with RunWriter(run) as writer:  # as one that goes on, and is interrupted
        writer.begin(suite_name="tiny", command="", version="0", environment={})
    with served(root, tmp_path_factory.mktemp("home")) as found:
        yield found


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of a run that a page started, and which is under way."""
    root, home = tmp_path_factory.mktemp("busy"), tmp_path_factory.mktemp("home")
    me, now = psutil.Process(), time.time()
    started = StartedProcess(
        pid=me.pid, created=me.create_time(), root=root, log=root / "x.log", says="vectrial run"
    )
    (home / "serve").mkdir()
    (home / "serve" / "started.json").write_text(started.model_dump_json())
    with RunWriter(root / "started"):
        status = Status(pid=os.getpid(), began=now, updated=now, trials=9, done=2)
        write_status(root / "started", status)
        with served(root, home) as found:
            yield found


def looks_well(chromium: Browser, axe: str, size: tuple[int, int]) -> None:
    """The page that is open is as wide as the screen, accessible, and without errors."""
    assert chromium.complaints() == []
    assert chromium.value("document.documentElement.scrollWidth") <= size[0]
    assert violations(chromium, axe) == []


@LOOKS
def test_form_and_plan(
    chromium: Browser, idle: str, axe: str, size: tuple[int, int], dark: bool
) -> None:
    chromium.open(f"{idle}/", *size, dark=dark)
    chromium.value("[...document.querySelectorAll('a')].find((a) => /Start/.test(a.text)).click()")
    chromium.wait_for("location.pathname === '/new' && !!document.querySelector('fieldset')")
    chromium.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    looks_well(chromium, axe, size)
    chromium.value("document.querySelector('[name=suite]').value = 'tiny.toml'")
    chromium.value("document.querySelector('.fill .filter button').click()")
    chromium.wait_for("!!document.querySelector('#plan .act button')")
    assert "tiny: 1 trial in 1 job" in chromium.value("document.body.innerText")
    looks_well(chromium, axe, size)


@LOOKS
def test_faults_of_a_form(
    chromium: Browser, idle: str, axe: str, size: tuple[int, int], dark: bool
) -> None:
    chromium.open(f"{idle}/new", *size, dark=dark)
    chromium.value("document.querySelector('[name=dataset]').value = 'clustered-16-2k'")
    chromium.value("document.querySelector('[name=rows]').value = '0'")
    chromium.value("document.querySelector('.fill > button').click()")
    chromium.wait_for("document.querySelectorAll('.fault').length === 3")
    field = "document.querySelector('[name=rows]')"
    says = f"document.getElementById({field}.getAttribute('aria-describedby')).innerText"
    assert chromium.value(says) == "Input should be greater than 0"
    assert violations(chromium, axe) == []


@LOOKS
def test_what_is_left_of_a_run(
    chromium: Browser, idle: str, axe: str, size: tuple[int, int], dark: bool
) -> None:
    chromium.open(run_address(chromium, idle, "interrupted"), *size, dark=dark)
    links = "[...document.querySelectorAll('.links a')]"
    chromium.value(f"{links}.find((a) => a.text === 'Continue').click()")
    chromium.wait_for("!!document.querySelector('#plan .act button')")
    looks_well(chromium, axe, size)


@LOOKS
@pytest.mark.parametrize("page", ["live", "/new"])
def test_while_a_run_is_under_way(
    chromium: Browser, busy: str, axe: str, page: str, size: tuple[int, int], dark: bool
) -> None:
    run = run_address(chromium, busy, "started")
    if page == "live":
        chromium.open(run, *size, dark=dark)
        assert chromium.value("document.querySelector('.act button').innerText") == "Stop"
    else:
        chromium.open(f"{busy}/new", *size, dark=dark)
        assert "One run at a time" in chromium.value("document.body.innerText")
    looks_well(chromium, axe, size)
    if page != "live":
        chromium.value("document.querySelector('.links a').click()")
        chromium.wait_for(f"location.href === {run!r}")


def test_by_keyboard(chromium: Browser, idle: str) -> None:
    chromium.open(f"{idle}/new", *DESKTOP, dark=False)
    for wanted in ("[name=suite]", "[name=dataset]", "[value=memory]", "[value=search]"):
        for _ in range(120):
            chromium.key("Tab")
            if chromium.value(f"document.activeElement.matches({wanted!r})"):
                break
        else:
            raise AssertionError(f"Tab does not lead to {wanted}")
    chromium.key("Space")
    assert chromium.value("document.activeElement.checked")
