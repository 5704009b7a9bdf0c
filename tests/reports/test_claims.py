"""Conclusions of reports are judged by the pairs of figures that they rest on."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from vectrial.document.blocks import Table
from vectrial.reports import REPRODUCTIONS, claims
from vectrial.reports.collect import ComparedFigure
from vectrial.reports.figures_render import Palette
from vectrial.reports.model import Claim, Side
from vectrial.reports.published import PublishedFigure, figures
from vectrial.stats.intervals import Spread

CLAIM = Claim("One is faster than two", "qps", Side("some", {"n": 1}), Side("some", {"n": 2}))


def cell(
    n: int, clients: int, measured: float | None, *, published: float = 1.0, around: float = 0.0
) -> ComparedFigure:
    """A figure, and what was measured for it in three repeats that lie `around` it."""
    params = {"n": n, "clients": clients}
    figure = PublishedFigure("a report", "some", "Store", params, "qps", published, "1", "", "")
    if measured is None:
        return ComparedFigure(figure, None, None, None, (), why="it did not run")
    spread = Spread(3, measured, measured - around, measured + around, "range")
    return ComparedFigure(figure, measured, measured / published, True, (), spread=spread)


@pytest.mark.parametrize(
    ("measured", "says"),
    [
        ([(9.0, 5.0), (8.0, 4.0)], "Holds here: in 2 of 2 measured pairs; as published in 2 of 2."),
        ([(9.0, 5.0), (3.0, 4.0)], "Holds here in part: in 1 of 2 measured pairs; as"),
        ([(1.0, 5.0), (3.0, 9.0)], "Reversed here: in 0 of 2 measured pairs; as"),
        (
            [(9.0, 5.0), (None, 4.0)],
            "Holds here: in 1 of 1 measured pairs; as published in 2 of 2.",
        ),
        ([(None, None), (None, 1.0)], "Not measured here; as published in 2 of 2."),
    ],
)
def test_a_claim_is_so_where_all_measured_pairs_say_so(
    measured: list[tuple[float | None, float | None]], says: str
) -> None:
    cells = [
        cell(n, clients, value, published=3.0 - n)
        for clients, pair in enumerate(measured)
        for n, value in enumerate(pair, 1)
    ]
    found = claims.pairs(CLAIM, cells)
    assert len(found) == len(measured)
    assert claims.told(found).startswith(says)


def test_pairs_that_were_not_measured_are_counted_and_have_no_row() -> None:
    report = replace(next(iter(REPRODUCTIONS.values())), claims=(CLAIM,))
    palette = Palette(("Store",))
    cells = [
        cell(n, clients, value, published=3.0 - n)
        for clients, value in ((1, 4.0), (2, None), (3, None))
        for n in (1, 2)
    ]
    (section,) = claims.section(report, cells, palette)
    _, table = section.blocks
    assert isinstance(table, Table)
    assert [row.cells[1].text for row in table.rows] == ["clients 1"]
    assert "2 pairs not measured: it did not run." in table.notes

    (section,) = claims.section(report, [one for one in cells if one.measured is None], palette)
    assert [block.title for block in section.blocks if isinstance(block, Table)] == [
        "All conclusions that rest on its figures"
    ]


def test_what_is_larger_by_less_than_was_said_is_told() -> None:
    claim = Claim("Twice", "qps", Side("some", {"n": 1}), Side("some", {"n": 2}), least=2.0)
    cells = [cell(n, 8, measured, published=3.0 - n) for n, measured in ((1, 9.0), (2, 6.0))]
    found = claims.pairs(claim, cells)
    assert [pair.verdict for pair in found] == [claims.Verdict.LESS]
    assert claims.told(found) == (
        "Holds here in part: in 0 of 1 measured pairs, by less than that in 1; as published in"
        " 1 of 1."
    )


def test_systems_are_compared_where_all_else_is_equal() -> None:
    cells = [
        ComparedFigure(
            PublishedFigure("a report", "some", store, {"n": n}, "qps", n, "1", "", ""),
            value, None, True, (),
        )
        for store, value in (("A", 3.0), ("B", 2.0), ("C", 5.0))
        for n in (1, 2)
    ]  # fmt: skip
    claim = Claim("A wins", "qps", Side("some", stores=("A",)), Side("some", stores=("B", "C")))
    found = claims.pairs(claim, cells)
    assert [(pair.systems, pair.verdict.name) for pair in found] == [
        (("A", "B"), "YES"), (("A", "C"), "NO"), (("A", "B"), "AGAIN"), (("A", "C"), "AGAIN"),
    ]  # fmt: skip


def test_a_time_without_a_server_is_not_set_beside_one_with_it() -> None:
    cells = [
        ComparedFigure(
            PublishedFigure("a report", "some", store, {}, "qps", 1.0, "1", "", ""),
            value, None, True, (), lacks=lacks,
        )
        for store, value, lacks in (("A", 3.0, ""), ("B", 2.0, "a server"), ("C", 5.0, ""))
    ]  # fmt: skip
    claim = Claim("A wins", "qps", Side("some", stores=("A",)), Side("some", stores=("B", "C")))
    one, other = claims.pairs(claim, cells)
    assert (one.measured, one.why) == (None, "B is without a server here")
    assert other.measured == pytest.approx(0.6)


def test_ranges_that_overlap_leave_it_open() -> None:
    cells = [cell(1, 8, 9.0, published=2.0, around=3.0), cell(2, 8, 7.0, around=1.0)]
    assert claims.told(claims.pairs(CLAIM, cells)) == (
        "Not shown: in 0 of 1 measured pairs, undecided in 1; as published in 1 of 1."
    )


@pytest.mark.parametrize(
    ("against", "undecided", "outcome"),
    [(2, 1, "REVERSED"), (1, 1, "NOT_SHOWN"), (1, 2, "NOT_SHOWN")],
)
def test_pairs_that_are_left_open_do_not_hide_that_most_are_reversed(
    against: int, undecided: int, outcome: str
) -> None:
    cells = [
        cell(n, clients, value, published=3.0 - n, around=3.0)
        for clients in range(against + undecided)
        for n, value in ((1, 90.0 if clients < undecided else 9.0 + clients), (2, 91.0 + clients))
    ]
    assert claims.outcome(claims.pairs(CLAIM, cells)).name == outcome


def test_what_was_measured_once_is_judged_once() -> None:
    """Fewer rows than published stand for several sizes."""
    cells = [cell(n, clients, 3.0 - n, published=3.0 - n) for clients in (1, 2) for n in (1, 2)]
    found = claims.pairs(CLAIM, cells)
    assert [pair.verdict.name for pair in found] == ["YES", "AGAIN"]
    assert claims.told(found).startswith("Holds here: in 1 of 1 measured pairs; as published in 2")


def test_figures_in_other_units_are_compared_as_times() -> None:
    hours, minutes = (
        PublishedFigure("a report", "some", "Store", {"n": n}, "time", value, unit, "", "")
        for n, value, unit in ((1, 2.0, "h"), (2, 4.0, "min"))
    )
    cells = [
        ComparedFigure(hours, 0.1, None, True, ()),
        ComparedFigure(minutes, 3.0, None, True, ()),
    ]
    claim = Claim("One takes longer", "time", Side("some", {"n": 1}), Side("some", {"n": 2}))
    (pair,) = claims.pairs(claim, cells)
    assert pair.published == pytest.approx(30)
    assert pair.measured == pytest.approx(2)


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        (20.0, "Possible here: ×12 published, at most ×20 here."),
        (12.0, "Possible here: ×12 published, at most ×12 here."),
        (3.0, "Not possible here: ×12 published, at most ×3"),
        (None, "Not measured here: there is no such card."),
    ],
)
def test_a_ratio_is_held_against_its_limit(limit: float | None, says: str) -> None:
    figure = PublishedFigure("a report", "some", "Store", {}, "speed_up", 12.0, "x", "", "")
    why = "" if limit else "there is no such card"
    valid = True if limit else None
    cells = [ComparedFigure(figure, limit, None, valid, (), why=why)]
    (pair,) = claims.pairs(Claim("12 times", "speed_up", Side("some")), cells)
    assert claims.told([pair]).startswith(says)
    assert (pair.verdict is claims.Verdict.IMPOSSIBLE) == (limit == 3.0)


@pytest.mark.parametrize(
    ("report", "claim"), [(name, one) for name, of in REPRODUCTIONS.items() for one in of.claims]
)
def test_every_claim_has_published_pairs(report: str, claim: Claim) -> None:
    cells = [ComparedFigure(one, None, None, None, ()) for one in figures(report)]
    found = claims.pairs(claim, cells)
    assert found
    sided = claim.second is None or bool(claim.first.stores or claim.second.stores)
    for pair in found:
        assert sided or len(pair.systems) == 1
    if claim.first.stores and claim.second is not None:
        named = {pair.systems for pair in found}
        assert named == set(product(claim.first.stores, claim.second.stores))
