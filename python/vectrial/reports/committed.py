"""Pages of committed reproductions, generated from the bundles of their parts.

`python -m vectrial.reports.committed docs/results docs/claims.md` writes `reproduction.md` and its
figures into every folder that holds the settings of a reproduction (`reproduction.json`), and a
page of all conclusions of all reports.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os.path import relpath
from pathlib import Path

from vectrial.document.blocks import Column, Report, Row, Section, Table
from vectrial.document.render import draw, markdown
from vectrial.model.errors import VectrialError
from vectrial.report.pages import FIGURES, Page, save, with_origin
from vectrial.reports import REPRODUCTIONS, claims, folder
from vectrial.reports.claims import Outcome
from vectrial.reports.collect import ComparedFigure
from vectrial.reports.model import Reproduction
from vectrial.reports.page_tables import Layout
from vectrial.reports.result import result_of
from vectrial.stores import registry

PAGE = "reproduction.md"
_ORIGIN = "Generated from the bundles of docs/results by `make results-pages`."
_TITLE = "Conclusions of the reports"
_ABOUT = (
    "What the published reports conclude from their figures, and what came of it here, out of the"
    " reproductions that are committed."
)


@dataclass(frozen=True)
class Committed:
    """A reproduction whose runs are committed. place: its folder."""

    place: Path
    report: Reproduction
    cells: tuple[ComparedFigure, ...]
    page: Report


def reproductions(results: Path) -> list[Committed]:
    """Those in a folder and below it, sorted by path."""
    found = sorted(path.parent for path in results.rglob(folder.MANIFEST))
    return [_committed(place) for place in found]


def _committed(place: Path) -> Committed:
    found = result_of(place, registry.names())
    return Committed(place, found.report, found.cells, found.page(Layout.CELLS))


def generate(one: Committed) -> Page:
    """Its page. The same bundles give the same text on any machine."""
    figures = {f"{figure.name}.svg": draw.alone(figure) for figure in one.page.figures()}
    origin = "Generated from the bundles in the folders beside it by `make results-pages`."
    return Page(with_origin(markdown.render(one.page, FIGURES), origin), figures)


def conclusions(found: Sequence[Committed], beside: Path) -> str:
    """The page of all conclusions. beside: the folder that it is written into."""
    sections = tuple(
        Section(name, report.title, "", (_table(report, found),))
        for name, report in REPRODUCTIONS.items()
        if report.claims
    )
    page = markdown.render(Report(_TITLE, _ABOUT, sections=sections), FIGURES)
    for one in found:  # a link in a cell would be shown as it is written
        place = Path(relpath(one.place / PAGE, beside)).as_posix()
        page = page.replace(f"| {one.place.name} |", f"| [{one.place.name}]({place}) |")
    return with_origin(page, _ORIGIN)


def _table(report: Reproduction, found: Sequence[Committed]) -> Table:
    heads = (*claims.OVERVIEW, Column("page", "Page", numeric=False))
    rows = tuple(Row.of(*row) for row in _rows(report, found))
    return Table(f"claims-{report.name}", "", heads, rows)


def _rows(report: Reproduction, found: Sequence[Committed]) -> Iterator[tuple[str, ...]]:
    own = [one for one in found if one.report.name == report.name]
    for claim in report.claims:
        judged = [(one, claims.pairs(claim, one.cells)) for one in own]
        shown = [(one, pairs) for one, pairs in judged if claims.outcome(pairs) is not Outcome.NONE]
        if not shown:
            why = judged[0][1][0].why if judged else ""
            yield claim.text, "not measured yet", why, ""
        for one, pairs in shown:
            yield claim.text, claims.outcome(pairs).value, claims.details(pairs), one.place.name


def main(arguments: Sequence[str]) -> int:
    """Generate the pages of a folder, and the page of conclusions. Returns the exit code."""
    results, page = map(Path, arguments)
    try:
        found = reproductions(results)
        for one in found:
            save(generate(one), one.place, PAGE)
            print(one.place / PAGE)
        page.write_text(conclusions(found, page.parent), encoding="utf-8")
        print(page)
    except VectrialError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
