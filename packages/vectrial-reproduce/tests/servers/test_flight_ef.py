"""After waiting, searches of the reference server are answered by the graph."""

from __future__ import annotations

from pathlib import Path

import pytest
from ef_recall import check_ef_search


@pytest.mark.slow
@pytest.mark.server("flight")
def test_ef_search_decides_recall(tmp_path: Path) -> None:
    check_ef_search("flight", {"m": 8, "ef_construction": 32}, tmp_path)
