"""Committed reproductions make pages of their bundles; so is the page of all conclusions made."""

from __future__ import annotations

from pathlib import Path

import pytest

from vectrial_reproduce.reports import committed
from vectrial_reproduce.reports.conclusions import Committed

ROOT = Path(__file__).resolve().parents[4]
RESULTS, CLAIMS = ROOT / "docs" / "results", ROOT / "docs" / "claims.md"
pytestmark = pytest.mark.committed
STALE = "the page is not what its bundles give: run `make results-pages` and commit"


@pytest.fixture(scope="module")
def found() -> list[Committed]:
    return committed.reproductions(RESULTS)


def test_a_committed_reproduction_has_a_page_with_figures(found: list[Committed]) -> None:
    assert found
    for one in found:
        assert committed.text_of(one).startswith(f"# {one.page.title}")
        assert any(cell.measured is not None for cell in one.cells)


def test_the_conclusions_are_those_of_the_committed_reproductions(found: list[Committed]) -> None:
    assert CLAIMS.read_text(encoding="utf-8") == committed.conclusions(
        found, RESULTS, CLAIMS.parent
    ), STALE
