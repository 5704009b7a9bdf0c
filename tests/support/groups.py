"""Which tests stay in one process where tests run side by side: those of one kind of server,
wherever they are, those of one store's conformance, and those of one file.

The process that hands out tests knows their names alone, so each process that runs them writes down
the group of those that are not grouped by their file.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import changes
import pytest
from selection import words_of

#: The file of groups, by the name that processes are given it under.
_FILE = "vectrial_groups"


class Groups:
    """For the process that hands out tests: gives the others a file to write their groups to."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="vectrial-groups-")
        self.file = Path(self._folder.name) / "groups.json"

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[_FILE] = str(self.file)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        from xdist.scheduler import LoadScopeScheduling

        groups: dict[str, str] = {}
        file = self.file

        class ByGroup(LoadScopeScheduling):
            def _split_scope(self, nodeid: str) -> str:
                if not groups:
                    groups.update(json.loads(file.read_text(encoding="utf-8")))
                return groups.get(nodeid) or nodeid.partition("::")[0]

        config.option.loadscopereorder = False
        return ByGroup(config, log)

    def pytest_unconfigure(self) -> None:
        self._folder.cleanup()


def write(file: Path, items: list[pytest.Item]) -> None:
    """Write the group of each test that is bound to a server or a store."""
    servers = changes.read_table().servers
    groups = {"": ""}  # never empty, so that it is read once
    for item in items:
        if words := words_of(item) - {"committed"}:
            word = min(words)
            groups[item.nodeid] = servers.get(word, word)
    part = file.with_name(f"{file.name}-{os.getpid()}")
    part.write_text(json.dumps(groups), encoding="utf-8")
    part.replace(file)  # every process writes the same
