"""What the tests of runs that pages start share."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from busy_machine import until
from served_pages import client_of
from starlette.testclient import TestClient

from vectrial_web.serve import launcher
from vectrial_web.serve.launcher import Launcher
from vectrial_web.serve.runs import Runs

#: A form of a run of about a second.
TINY: Mapping[str, Any] = {
    "kind": "parts",
    "name": "tiny",
    "dataset": "clustered-16-2k",
    "rows": "500",
    "repeats": "1",
    "store": ["memory"],
    "experiment": ["storage"],
}


class Forms:
    """A browser that fills in the form of a folder of runs."""

    def __init__(self, root: Path, host: str = "localhost:8877", **access: object) -> None:
        self.root, self.runs = root, Runs(root)
        self.client: TestClient = client_of(self.runs, host, **access)

    def token(self, page: str = "/new") -> str:
        """The token of the forms of a page."""
        return hidden(self.client.get(page).text, "form")

    def post(self, sent: Mapping[str, Any], **more: Any) -> Any:
        """Send the form as a page of ours does."""
        return self.client.post("/new", data={"form": self.token(), **sent}, **more)

    def start(self, sent: Mapping[str, Any]) -> Any:
        """Ask for the plan, and then for its start."""
        form = {"form": self.token(), **sent}
        plan = self.client.post("/new", data=form)
        assert plan.status_code == 200, faults(plan.text)
        seen = hidden(plan.text, "seen")
        return self.client.post("/new", data={**form, "start": "1", "seen": seen})

    def run_page(self, timeout_s: float = 120) -> str:
        """The address of the run that was started, once it has begun."""
        return until(lambda: self.client.get("/started").headers.get("location", ""), timeout_s)


def hidden(page: str, name: str) -> str:
    """The value of a hidden field; empty if there is none."""
    found = re.search(rf'type="hidden" name="{name}" value="([^"]*)"', page)
    return unescape(found[1]) if found else ""


def faults(page: str) -> dict[str, str]:
    """The messages of a form by field."""
    found = re.findall(r'class="fault" id="fault-(\w+)">([^<]+)', page)
    return {name: unescape(message) for name, message in found}


@contextmanager
def sleeping_runs(patch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, ...]]]:
    """Runs are processes that sleep until they are interrupted; yields the arguments of each."""
    calls: list[tuple[str, ...]] = []

    def sleeper(module: str, *arguments: str) -> tuple[str, ...]:
        calls.append((module, *arguments))
        return sys.executable, "-c", "import time; time.sleep(600)"

    patch.setattr(launcher, "python", sleeper)
    yield calls


def end(forms: Forms) -> None:
    """Stop what was started, and wait for its end."""
    one = Launcher(forms.runs)
    if (started := one.started()) is not None:
        one.stop(started.name)
        until(lambda: not one.is_alive(started))
