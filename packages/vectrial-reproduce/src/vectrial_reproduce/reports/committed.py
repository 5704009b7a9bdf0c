"""Pages of committed reproductions, generated from the bundles of their parts, and ignored by git.

`python -m vectrial_reproduce.reports.committed docs/results docs/claims.md` writes
`reproduction.md` and its figures into every folder that holds the settings of a reproduction
(`reproduction.json`), and a page of all conclusions of all reports, which is committed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from vectrial.document.render import draw, markdown
from vectrial.model.errors import VectrialError
from vectrial.report.pages import FIGURES, Page, save, with_origin
from vectrial.stores import registry
from vectrial_reproduce.reports import folder
from vectrial_reproduce.reports.conclusions import PAGE, Committed, conclusions
from vectrial_reproduce.reports.page_tables import Layout
from vectrial_reproduce.reports.result import result_of


def reproductions(results: Path) -> list[Committed]:
    """The reproductions in a folder and below it, sorted by path."""
    found = sorted(path.parent for path in results.rglob(folder.MANIFEST))
    return [_read_committed(place) for place in found]


def _read_committed(place: Path) -> Committed:
    found = result_of(place, registry.names())
    return Committed(place, found.report, found.settings, found.cells, found.page(Layout.CELLS))


def generate(reproduction: Committed) -> Page:
    """The page of a reproduction. The same bundles give the same text on any machine."""
    figures = {
        f"{figure.name}.svg": draw.standalone_svg(figure) for figure in reproduction.page.figures()
    }
    return Page(text_of(reproduction), figures)


def text_of(reproduction: Committed) -> str:
    """The text of a reproduction's page."""
    origin = "Generated from the bundles in the folders beside it by `make results-pages`."
    return with_origin(markdown.render(reproduction.page, FIGURES), origin)


def main(arguments: Sequence[str]) -> int:
    """Generate the pages of a folder, and the page of conclusions. Returns the exit code."""
    results, page = map(Path, arguments)
    try:
        found = reproductions(results)
        for one in found:
            save(generate(one), one.place, PAGE)
            print(one.place / PAGE)
        page.write_text(conclusions(found, results, page.parent), encoding="utf-8")
        print(page)
    except VectrialError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
