"""The section of conclusions on the page of a reproduction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from vectrial.document import blocks as doc
from vectrial.document.blocks import Column, Row, Section, Table
from vectrial.util import formatting
from vectrial_reproduce.reports import figure_text
from vectrial_reproduce.reports.collect import ComparedFigure
from vectrial_reproduce.reports.figures_render import Palette
from vectrial_reproduce.reports.model import Claim, Reproduction
from vectrial_reproduce.reports.page_tables import readable_name
from vectrial_reproduce.reports.tables import system
from vectrial_reproduce.reports.verdicts import Pair, outcome_words, pairs

_LEAD = (
    "What the report concludes, and whether it is so here: the first value over the second of each"
    " pair of figures, published and measured under the same load. A single run decides nothing"
    " within 10 % (of a recall, within 0.01): such pairs are undecided, until three repeats show"
    " ranges that do not overlap."
)

#: Columns of a table with a row for each claim.
OVERVIEW = (
    Column("claim", "The report says", numeric=False),
    Column("outcome", "Here", numeric=False),
    Column("pairs", "In figures", numeric=False),
)


def section(
    report: Reproduction, cells: Sequence[ComparedFigure], palette: Palette
) -> Iterator[Section]:
    """The claims of the report, each with its verdict; empty if the report lists none."""
    each = [(claim, pairs(claim, cells)) for claim in report.claims]
    each = [(claim, found) for claim, found in each if found]
    if each:
        tables = (
            _table(f"claim-{number}", claim, found, palette)
            for number, (claim, found) in enumerate(each, 1)
            if any(pair.measured is not None for pair in found)
        )
        yield Section("claims", "What the report concludes", _LEAD, (_overview(each), *tables))


def _overview(each: Sequence[tuple[Claim, Sequence[Pair]]]) -> Table:
    """One row for each claim."""
    rows = tuple(Row.from_values(claim.text, *outcome_words(claim, found)) for claim, found in each)
    return Table("claims", "All conclusions that rest on its figures", OVERVIEW, rows)


def _table(name: str, claim: Claim, found: Sequence[Pair], palette: Palette) -> Table:
    """Table of the measured pairs, and of the reasons why others were not measured."""
    heads = (
        Column("store", "Store", numeric=False),
        Column("at", "At", numeric=False),
        Column("published", "Published"),
        Column("measured", "Measured"),
        Column("verdict", "Holds here", numeric=False),
    )
    shared = _common_names([pair.cells[0].figure.params for pair in found])
    rows = tuple(_row(pair, shared, palette) for pair in found if pair.measured is not None)
    lacking = Counter(pair.absence for pair in found if pair.measured is None)
    absent = (f"{formatting.plural(count, 'pair')} {why}." for why, count in lacking.items())
    notes = tuple(filter(None, (": ".join(outcome_words(claim, found)), claim.note, *absent)))
    return Table(name, claim.text, heads, rows, notes, grouped_by=0)


def _row(pair: Pair, shared: set[str], palette: Palette) -> Row:
    figure = pair.cells[0].figure
    at = {name: value for name, value in figure.params.items() if name not in shared}
    assert pair.measured is not None
    assert pair.published is not None
    digits = 4 if pair.is_of_recalls else 2
    return Row.from_values(
        " over ".join(dict.fromkeys(_system(cell, palette) for cell in pair.cells)),
        ", ".join(
            f"{readable_name(name)} {figure_text.setting_text(value)}" for name, value in at.items()
        ),
        doc.times_cell(pair.published, digits),
        doc.times_cell(pair.measured, digits),
        pair.verdict.value,
        series=palette.series(figure.store, False),
    )


def _system(cell: ComparedFigure, palette: Palette) -> str:
    """A system, and the store that was measured for this figure."""
    name = cell.figure.store
    return system(name, cell.here) if cell.here else palette.measured(name)


def _common_names(params: Sequence[Mapping[str, object]]) -> set[str]:
    """Names of parameters with the same value everywhere."""
    return {name for name in params[0] if len({str(one.get(name)) for one in params}) == 1}
