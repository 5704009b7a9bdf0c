"""Pages in a real browser: served by the command itself, and checked for accessibility."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser

from vectrial.testing.server_programs import skip_or_fail
from vectrial.util.paths import downloads_dir

#: Marks of every test that needs the browser.
NEEDS_BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None, reason="Chromium is not installed: apt-get install -y chromium"
    ),
]
AXE = "axe-core@4.14.1"
PHONE, DESKTOP = (390, 844), (1440, 900)
#: A size and a colour scheme: each of either is looked at once.
LOOKS = pytest.mark.parametrize(
    ("size", "dark"),
    [pytest.param(PHONE, False, id="phone-light"), pytest.param(DESKTOP, True, id="desktop-dark")],
)


@contextmanager
def served(root: Path, home: Path, token: str | None = None) -> Iterator[str]:
    """The command itself, as a person starts it."""
    environment = {**os.environ, "VECTRIAL_HOME": str(home)}
    environment.pop("VECTRIAL_SERVE_TOKEN", None)
    if token is not None:
        environment["VECTRIAL_SERVE_TOKEN"] = token
    command = [sys.executable, "-m", "vectrial.cli.main", "serve", str(root), "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip().rstrip("/")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert "Traceback" not in said
    finally:
        process.kill()
        process.wait()


def checker(folder: Path) -> str:
    """Its script, fetched into `folder` unless it is kept; `skip_or_fail` where it cannot be
    had."""
    kept = downloads_dir() / f"{AXE.replace('@', '-')}.js"
    if kept.is_file():
        return kept.read_text(encoding="utf-8")
    npm = shutil.which("npm")
    if npm is None:
        skip_or_fail("axe", f"{AXE} is fetched by npm, which is not installed")
    try:
        got = subprocess.run(
            [npm, "pack", AXE], cwd=folder, capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        skip_or_fail("axe", f"npm did not fetch {AXE} within two minutes")
    if got.returncode:
        skip_or_fail("axe", f"npm cannot fetch {AXE}: {got.stderr.strip()[-300:]}")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        script = member.read().decode("utf-8")
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(script, encoding="utf-8")
    return script


def run_address(chromium: Browser, address: str, name: str) -> str:
    """The page of a run, as the list links it."""
    chromium.open(f"{address}/", *DESKTOP, dark=False)
    chromium.wait_for("!document.querySelector('.state.unread')")
    found = chromium.value(
        "[...document.querySelectorAll('.runs tbody tr')].find((row) =>"
        f" row.querySelector('small').textContent === {name!r}).querySelector('a').href"
    )
    return str(found)


def violations(chromium: Browser, axe: str) -> list[str]:
    """What the checker finds on the page that is open, serious and critical."""
    chromium.value(f"{axe};0")
    found = chromium.value("axe.run().then((r) => JSON.stringify([r.passes.length, r.violations]))")
    passes, bad = json.loads(found)
    assert passes > 15, "the checker looked at the page"
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}: {one['nodes'][0]['failureSummary'][:300]}"
        for one in bad
        if one["impact"] in ("serious", "critical")
    ]
