"""`pytest --changed` runs the tests that a change can break: see `changes` and CONTRIBUTING.md.
`pytest --alone --last-failed` names, of the tests that failed before, those that pass now."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import changes
import pytest

_ROOT = changes.ROOT
#: What a process that runs tests for another says of those that it left out.
_LEFT_OUT, _NOT_BUILT = "vectrial_left_out", "vectrial_not_built"


def words_of(item: pytest.Item) -> frozenset[str]:
    """The words that a test is bound to; none if it always runs.

    A test of a store's conformance is bound to the store, another one to the servers it needs.
    """
    store = {name for mark in item.iter_markers("store") for name in mark.args}
    closest = item.get_closest_marker("server")
    server = set() if closest is None else set(closest.args)
    committed = {"committed"} if item.get_closest_marker("committed") else set()
    return frozenset(store or server | committed)


class Changed:
    """Leaves out the tests that the change does not touch, and says so."""

    def __init__(self, chosen: changes.Selection) -> None:
        self._chosen = chosen
        self._left_out = 0
        self._not_built: Counter[str] = Counter()

    def pytest_report_header(self) -> str:
        return f"changed: {self._chosen.text()}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        kept, left_out = [], []
        here: dict[str, bool] = {}
        for item in items:
            words, file = words_of(item), _file(item)
            missing = []
            if self._chosen.runs(file, words):
                built = words & self._chosen.table.built
                for word in built - here.keys():
                    here[word] = changes.is_here(word, self._chosen.table)
                missing = [word for word in built if not here[word]]
                self._not_built.update(missing)
                if not missing:
                    kept.append(item)
                    continue
            left_out.append(item)
        self._left_out = len(left_out)
        if left_out:
            items[:] = kept
            config.hook.pytest_deselected(items=left_out)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        told = getattr(session.config, "workeroutput", None)
        if told is not None:
            told[_LEFT_OUT], told[_NOT_BUILT] = self._left_out, dict(self._not_built)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        told = getattr(node, "workeroutput", {})
        self._left_out = told.get(_LEFT_OUT, self._left_out)
        self._not_built = Counter(told.get(_NOT_BUILT, self._not_built))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        say = terminalreporter.write_line
        for word, count in sorted(self._not_built.items()):
            say(f"skipped: {count} tests of {word}, which needs what is built from source")
        say(f"changed: {self._chosen.text()}")
        say(f"changed: {self._left_out} tests are left for `make test-full`")


class Alone:
    """Names the tests that failed in the run before and pass in this one, which runs them alone."""

    def __init__(self) -> None:
        self._passed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed.append(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._passed:
            terminalreporter.section("failed beside others, and passed alone: find out why")
            for name in self._passed:
                terminalreporter.write_line(name)


def _file(item: pytest.Item) -> str:
    path = Path(item.path)
    return path.relative_to(_ROOT).as_posix() if path.is_relative_to(_ROOT) else str(path)
