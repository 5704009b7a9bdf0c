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

from vectrial.document.blocks import Column, Report, Row, Section, Table, columns, table_of
from vectrial.document.render import draw, markdown
from vectrial.model.errors import VectrialError
from vectrial.report.pages import FIGURES, Page, save, with_origin
from vectrial.reports import REPRODUCTIONS, claims, folder, methods
from vectrial.reports.claims import Outcome
from vectrial.reports.collect import ComparedFigure
from vectrial.reports.model import Reproduction
from vectrial.reports.page_tables import Layout
from vectrial.reports.planning import Settings
from vectrial.reports.published import figures
from vectrial.reports.result import result_of
from vectrial.stats.intervals import LEAST_REPEATS
from vectrial.stores import registry

PAGE = "reproduction.md"
_ORIGIN = "Generated from the bundles of docs/results by `make results-pages`."
_TITLE = "Conclusions of the reports"
_ABOUT = (
    "What the published reports conclude from their figures, and what came of it here, out of the"
    " reproductions that are committed."
)


_EXTENT = (
    "Published figures that have a value from here in one of the committed reproductions, those"
    " whose value was measured at the report's own number of rows, and those with a spread:"
    f" {LEAST_REPEATS} repeats or more."
)


@dataclass(frozen=True)
class Committed:
    """A reproduction whose runs are committed. place: its folder."""

    place: Path
    report: Reproduction
    settings: Settings
    cells: tuple[ComparedFigure, ...]
    page: Report


def reproductions(results: Path) -> list[Committed]:
    """Those in a folder and below it, sorted by path."""
    found = sorted(path.parent for path in results.rglob(folder.MANIFEST))
    return [_committed(place) for place in found]


def _committed(place: Path) -> Committed:
    found = result_of(place, registry.names())
    return Committed(place, found.report, found.settings, found.cells, found.page(Layout.CELLS))


def generate(one: Committed) -> Page:
    """Its page. The same bundles give the same text on any machine."""
    figures = {f"{figure.name}.svg": draw.alone(figure) for figure in one.page.figures()}
    origin = "Generated from the bundles in the folders beside it by `make results-pages`."
    return Page(with_origin(markdown.render(one.page, FIGURES), origin), figures)


def conclusions(found: Sequence[Committed], beside: Path) -> str:
    """The page of all conclusions. beside: the folder that it is written into."""
    sections = (
        Section("extent", "How much of them was measured", _EXTENT, (_extent(found),)),
        *(
            Section(name, report.title, "", (_table(report, found), *_methods(report, found)))
            for name, report in REPRODUCTIONS.items()
            if report.claims
        ),
    )
    page = markdown.render(Report(_TITLE, _ABOUT, sections=sections), FIGURES)
    for one in found:  # a link in a cell would be shown as it is written
        place = Path(relpath(one.place / PAGE, beside)).as_posix()
        page = page.replace(f"| {one.place.name} |", f"| [{one.place.name}]({place}) |")
    return with_origin(page, _ORIGIN)


def _of(report: Reproduction, found: Sequence[Committed]) -> list[Committed]:
    """Those of one report."""
    return [one for one in found if one.report.name == report.name]


def _extent(found: Sequence[Committed]) -> Table:
    heads = columns(
        report="Report",
        figures=("Published", ""),
        measured=("With a value", ""),
        whole=("At the report's rows", ""),
        repeated=("With a spread", ""),
    )
    rows = [_extent_of(report, found) for report in REPRODUCTIONS.values()]
    total = ("All", *(sum(counts) for counts in list(zip(*rows, strict=True))[1:]))
    return table_of("extent", "", heads, (*rows, total))


def _extent_of(report: Reproduction, found: Sequence[Committed]) -> tuple[str, int, int, int, int]:
    """Its title, and the numbers of its figures: published, and in at least one reproduction with a
    value, measured at the report's rows, and with a spread."""
    own = (one.cells for one in _of(report, found))
    of_each = list(zip(*own, strict=True))  # each has every figure, in the report's order
    return (
        report.title,
        len(figures(report.name)),
        sum(any(cell.measured is not None for cell in cells) for cells in of_each),
        sum(any(cell.whole for cell in cells) for cells in of_each),
        sum(any(_repeats(cell) >= LEAST_REPEATS for cell in cells) for cells in of_each),
    )


def _repeats(cell: ComparedFigure) -> int:
    return 0 if cell.spread is None else cell.spread.n


def _table(report: Reproduction, found: Sequence[Committed]) -> Table:
    heads = (*claims.OVERVIEW, Column("page", "Page", numeric=False))
    rows = tuple(Row.of(*row) for row in _rows(report, found))
    return Table(f"claims-{report.name}", "", heads, rows)


def _methods(report: Reproduction, found: Sequence[Committed]) -> Iterator[Table]:
    """What the report's own method makes of its figures, where it was repeated at the same scale
    as Vectrial's."""
    own = _of(report, found)
    for one in (one for one in own if one.settings.faithful):
        fair = (
            other
            for other in own
            if not other.settings.faithful and other.settings.scale == one.settings.scale
        )
        pairs = (pair for other in fair for pair in zip(one.cells, other.cells, strict=True))
        table = methods.table(f"methods-{one.place.name}", pairs)
        if table is not None:
            yield table


def _rows(report: Reproduction, found: Sequence[Committed]) -> Iterator[tuple[str, ...]]:
    own = _of(report, found)
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
