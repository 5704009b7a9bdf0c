"""Committed pages are what their bundles give."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from synthetic_runs import STORES, write_run

from vectrial.model.errors import UserError
from vectrial.report import pages
from vectrial.results.bundle import seal

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
STALE = "the page is not what its bundle gives: run `make results-pages` and commit"

#: What a figure says: its texts, and the value and the colour of each mark. The places of marks
#: and texts are left out: they depend on the fonts of the machine, which decide how wide texts are.
_TEXT = re.compile(r"<text[^>]*>([^<]*)</text>")
_MARK = re.compile(r'<(?:path|line|rect)[^>]*aria-label="([^"]*)"[^>]*>')
_COLOUR = re.compile(r'(?:fill|stroke)="(#[0-9a-fA-F]{6})"')


def marks(drawing: str) -> list[Sequence[str]]:
    """The value and the colours of each mark, in order."""
    return [(found[1], *_COLOUR.findall(found[0])) for found in _MARK.finditer(drawing)]


@pytest.mark.committed
@pytest.mark.parametrize(
    "bundle", pages.bundles(RESULTS), ids=lambda path: path.relative_to(RESULTS).parent.as_posix()
)
def test_a_committed_page_is_what_its_bundle_gives(bundle: Path) -> None:
    page = pages.generate(bundle)
    assert (bundle.parent / pages.PAGE).read_text(encoding="utf-8") == page.text, STALE
    committed = {path.name: path for path in (bundle.parent / pages.FIGURES).glob("*")}
    assert committed.keys() == page.figures.keys(), STALE
    for name, drawing in page.figures.items():
        there = committed[name].read_text(encoding="utf-8")
        assert marks(drawing), name
        assert marks(there) == marks(drawing), (name, STALE)
        assert _TEXT.findall(there) == _TEXT.findall(drawing), (name, STALE)
    assert all(f"]({pages.FIGURES}/{name})" in page.text for name in page.figures)


def cells(line: str) -> list[str]:
    """Of a row of a Markdown table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


@pytest.mark.committed
@pytest.mark.parametrize(
    ("results", "section"), [("demo", "## Embedded stores\n"), ("servers", "## Servers\n")]
)
def test_the_findings_quote_the_page_of_the_bundle(results: str, section: str) -> None:
    """Each figure of a table of findings stands in a row of its store in the report."""
    page = (RESULTS / results / pages.PAGE).read_text(encoding="utf-8")
    findings = (RESULTS / "README.md").read_text(encoding="utf-8")
    table = findings.partition(section)[2].partition("\n## ")[0]
    quoted = [cells(line) for line in table.splitlines() if line.startswith("| ")][2:]
    assert quoted
    for store, *figures in quoted:
        rows = "\n".join(
            line for line in page.splitlines() if re.match(rf"\| {store}( ·| \(| \|)", line)
        )
        there = re.split(r" \| | \(|\)|/s|\n", rows)
        for part in (part for figure in figures for part in re.split(r" \(|\)", figure)):
            assert (
                part in ("", "–")
                or part.startswith("wrong")
                or part in there
                or (f"ef\\_search={part} " in rows.replace(")", " "))
            ), (store, part)


@pytest.mark.committed
def test_every_committed_page_has_its_bundle() -> None:
    """And no tables beside it."""
    sealed = {bundle.parent for bundle in pages.bundles(RESULTS)}
    sealed |= {folder.parent for folder in sealed}  # of a reproduction, a folder for each part
    assert not [path for path in RESULTS.glob("*/**/*.md") if path.parent not in sealed]
    assert not list(RESULTS.rglob("*.csv"))


@pytest.mark.slow
def test_the_pages_of_a_folder_are_written_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "run", repeats=1, stores={"faiss": STORES["faiss"]}, only_sweep=True)
    (tmp_path / "run" / "suite.toml").write_text('name = "demo"\n')
    results = tmp_path / "results"
    bundle = seal(tmp_path / "run", results / "one" / "run.vectrial.tar.gz")
    stale = results / "one" / "figures" / "stale.svg"
    stale.parent.mkdir()
    stale.write_text("<svg/>")
    assert pages.main([str(results)]) == 0
    written = Path(capsys.readouterr().out.strip())
    assert written == results / "one" / "report.md"
    assert bundle.seal in written.read_text()
    assert not stale.exists()
    assert list(stale.parent.glob("*.svg"))


def test_a_folder_without_bundles_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pages.main([str(tmp_path)]) == 2
    assert f"{tmp_path}: no bundle here" in capsys.readouterr().err


def test_two_bundles_would_write_one_page(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.vectrial.tar.gz").touch()
    with pytest.raises(UserError, match=r"a\.vectrial\.tar\.gz and b\.vectrial\.tar\.gz"):
        pages.bundles(tmp_path)
