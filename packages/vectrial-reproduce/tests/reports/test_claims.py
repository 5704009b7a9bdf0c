"""Conclusions of reports are judged by the pairs of figures that they rest on."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from vectrial.document.blocks import Table
from vectrial.stats.intervals import Spread
from vectrial_reproduce.reports import REPRODUCTIONS, claims, verdicts
from vectrial_reproduce.reports.collect import ComparedFigure
from vectrial_reproduce.reports.conclusions import ClaimEvidence
from vectrial_reproduce.reports.figures_render import Palette
from vectrial_reproduce.reports.model import Absence, Claim, ClaimSide
from vectrial_reproduce.reports.published import PublishedFigure, figures

CLAIM = Claim(
    "One is faster than two", "qps", ClaimSide("some", {"n": 1}), ClaimSide("some", {"n": 2})
)


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
        (
            [(9.0, 5.0), (8.0, 4.0)],
            ("holds", "In 2 of 2 measured pairs, ×1.8 to ×2.0; as published in 2 of 2."),
        ),
        (
            [(9.0, 5.0), (3.0, 4.0)],
            ("holds in part", "In 1 of 2 measured pairs, ×0.75 to ×1.8; as published in 2 of 2."),
        ),
        (
            [(1.0, 5.0), (3.0, 9.0)],
            ("reversed", "In 0 of 2 measured pairs, ×0.20 to ×0.33; as published in 2 of 2."),
        ),
        (
            [(9.0, 5.0), (None, 4.0)],
            ("holds", "In 1 of 1 measured pair, ×1.8; as published in 2 of 2."),
        ),
        ([(None, None), (None, 1.0)], ("not measured yet", "It did not run.")),
    ],
)
def test_a_claim_is_so_where_all_measured_pairs_say_so(
    measured: list[tuple[float | None, float | None]], says: tuple[str, str]
) -> None:
    cells = [
        cell(n, clients, value, published=3.0 - n)
        for clients, pair in enumerate(measured)
        for n, value in enumerate(pair, 1)
    ]
    found = verdicts.pairs(CLAIM, cells)
    assert len(found) == len(measured)
    assert verdicts.outcome_words(CLAIM, found) == says


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
    claim = Claim(
        "Twice", "qps", ClaimSide("some", {"n": 1}), ClaimSide("some", {"n": 2}), least=2.0
    )
    cells = [cell(n, 8, measured, published=3.0 - n) for n, measured in ((1, 9.0), (2, 6.0))]
    found = verdicts.pairs(claim, cells)
    assert [pair.verdict for pair in found] == [verdicts.ClaimVerdict.LESS]
    assert verdicts.outcome_words(claim, found) == (
        "holds, but not in size",
        "In 0 of 1 measured pair, by less than that in 1, ×1.5; as published in 1 of 1.",
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
    claim = Claim(
        "A wins", "qps", ClaimSide("some", stores=("A",)), ClaimSide("some", stores=("B", "C"))
    )
    found = verdicts.pairs(claim, cells)
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
    claim = Claim(
        "A wins", "qps", ClaimSide("some", stores=("A",)), ClaimSide("some", stores=("B", "C"))
    )
    one, other = verdicts.pairs(claim, cells)
    assert (one.measured, one.why) == (None, "B is without a server here")
    assert other.measured == pytest.approx(0.6)


def test_ranges_that_overlap_leave_it_open() -> None:
    cells = [cell(1, 8, 9.0, published=2.0, around=3.0), cell(2, 8, 7.0, around=1.0)]
    assert verdicts.outcome_words(CLAIM, verdicts.pairs(CLAIM, cells)) == (
        "undecided",
        "In 0 of 1 measured pair, undecided in 1, ×1.3; as published in 1 of 1.",
    )


@pytest.mark.parametrize(
    ("against", "undecided", "outcome"),
    [(2, 1, "REVERSED"), (1, 1, "REVERSED"), (1, 2, "UNDECIDED")],
)
def test_pairs_that_are_left_open_do_not_hide_that_most_are_reversed(
    against: int, undecided: int, outcome: str
) -> None:
    cells = [
        cell(n, clients, value, published=3.0 - n, around=3.0)
        for clients in range(against + undecided)
        for n, value in ((1, 90.0 if clients < undecided else 9.0 + clients), (2, 91.0 + clients))
    ]
    came = verdicts.outcome(verdicts.pairs(CLAIM, cells))
    assert came is not None
    assert came.name == outcome


def test_what_was_measured_once_is_judged_once() -> None:
    """Fewer rows than published stand for several sizes."""
    cells = [cell(n, clients, 3.0 - n, published=3.0 - n) for clients in (1, 2) for n in (1, 2)]
    found = verdicts.pairs(CLAIM, cells)
    assert [pair.verdict.name for pair in found] == ["YES", "AGAIN"]
    assert verdicts.outcome_words(CLAIM, found)[1].startswith(
        "In 1 of 1 measured pair, ×2.0; as published"
    )


def test_figures_in_other_units_are_compared_as_times() -> None:
    hours, minutes = (
        PublishedFigure("a report", "some", "Store", {"n": n}, "time", value, unit, "", "")
        for n, value, unit in ((1, 2.0, "h"), (2, 4.0, "min"))
    )
    cells = [
        ComparedFigure(hours, 0.1, None, True, ()),
        ComparedFigure(minutes, 3.0, None, True, ()),
    ]
    claim = Claim(
        "One takes longer", "time", ClaimSide("some", {"n": 1}), ClaimSide("some", {"n": 2})
    )
    (pair,) = verdicts.pairs(claim, cells)
    assert pair.published == pytest.approx(30)
    assert pair.measured == pytest.approx(2)


def test_what_differs_by_a_tenth_is_not_decided_by_a_single_run() -> None:
    for value, verdict in ((10.9, "OPEN"), (9.2, "OPEN"), (11.1, "YES"), (9.0, "NO")):
        once = [replace(cell(n, 8, m), spread=None) for n, m in ((1, value), (2, 10.0))]
        (pair,) = verdicts.pairs(CLAIM, once)
        assert pair.verdict.name == verdict
    (pair,) = verdicts.pairs(CLAIM, [cell(1, 8, 10.9), cell(2, 8, 10.0)])
    assert pair.verdict.name == "YES", "three repeats whose ranges lie apart"


def recall_of(n: int, value: float) -> ComparedFigure:
    figure = PublishedFigure("a report", "some", "Store", {"n": n}, "recall", 0.9, "1", "", "")
    return ComparedFigure(figure, value, None, True, ())


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [(1.0, 0.9999, "OPEN"), (0.99, 0.97, "YES"), (0.2, 0.191, "OPEN"), (0.95, 0.97, "NO")],
)
def test_recalls_of_single_runs_are_told_apart_by_a_hundredth(
    first: float, second: float, verdict: str
) -> None:
    claim = replace(CLAIM, metric="recall")
    (pair,) = verdicts.pairs(claim, [recall_of(1, first), recall_of(2, second)])
    assert pair.verdict.name == verdict


def test_how_a_lead_changes_is_a_ratio_of_ratios() -> None:
    def of(store: str, rows: int, value: float) -> ComparedFigure:
        params = {"rows": rows, "dataset": "d"}
        figure = PublishedFigure("a report", "some", store, params, "qps", value, "1", "", "")
        return ComparedFigure(figure, value, None, True, ())

    cells = [of("A", 10, 9.0), of("B", 10, 3.0), of("A", 1, 4.0), of("B", 1, 4.0)]
    sides = [ClaimSide("some", {"rows": (rows, 99)}, (s,)) for rows in (10, 1) for s in ("A", "B")]
    claim = Claim("A's lead grows", "qps", sides[0], sides[1], (sides[2], sides[3]))
    (pair,) = verdicts.pairs(claim, cells)
    assert pair.measured == pytest.approx((9 / 3) / (4 / 4))
    assert pair.verdict.name == "YES"


def test_a_range_that_the_report_states_has_two_ends() -> None:
    claim = replace(CLAIM, least=2.0, most=5.0)
    for value, verdict in ((1.5, "LESS"), (2.05, "OPEN"), (3.0, "YES"), (5.2, "OPEN"), (9, "MORE")):
        once = [replace(cell(n, 8, m), spread=None) for n, m in ((1, value), (2, 1.0))]
        (pair,) = verdicts.pairs(claim, once)
        assert pair.verdict.name == verdict


@pytest.mark.parametrize(
    ("figure", "says"),
    [
        (
            {"why": "filters_hold: {\"eq\": 1} returned 1 rows outside it; id 5: {'a': 'd'}"},
            (
                "invalid",
                "Because flight fails the gate, which demands: Every row of a filtered answer holds"
                " the filter.",
            ),
        ),
        ({"measured": -3.0, "valid": True}, ("undecided", "No qps of Store was shown.")),
        (
            {"measured": None, "valid": None, "why": "skipped: it cannot filter so"},
            ("not measured yet", "It cannot filter so."),
        ),
        ({"few_calls": True, "valid": True}, ("undecided", "It is the time of a few calls.")),
    ],
)
def test_each_reason_for_no_verdict_has_a_word_and_a_sentence(
    figure: dict[str, object], says: tuple[str, str]
) -> None:
    able = {"valid": False, "store": "flight", **figure}
    cells = [replace(cell(1, 8, 9.0), **able), cell(2, 8, 3.0)]  # type: ignore[arg-type]
    assert verdicts.outcome_words(CLAIM, verdicts.pairs(CLAIM, cells)) == says


def test_what_the_report_declares_stands_where_nothing_decides() -> None:
    claim = Claim("By magic", absent=(Absence.NEVER, "There is none."))
    assert verdicts.outcome_words(claim, verdicts.pairs(claim, [])) == (
        "never measured",
        "There is none.",
    )


@pytest.mark.parametrize(
    ("report", "claim"), [(name, one) for name, of in REPRODUCTIONS.items() for one in of.claims]
)
def test_every_claim_has_published_pairs_or_says_what_it_rests_on(
    report: str, claim: Claim
) -> None:
    cells = [ComparedFigure(one, None, None, None, ()) for one in figures(report)]
    found = verdicts.pairs(claim, cells)
    assert found or claim.readings or claim.absent
    assert not claim.first or found
    for pair in found:
        assert pair.published is not None
    if claim.first and claim.first.stores and claim.second is not None and not claim.beside:
        named = {pair.systems for pair in found}
        each = product(claim.first.stores, claim.second.stores or claim.first.stores)
        assert named == {tuple(dict.fromkeys(both)) for both in each}


def test_the_best_evidence_has_most_rows_then_repeats_then_the_reports_method() -> None:
    def evidence(name: str, rows: int, repeats: int, *, faithful: bool = False) -> ClaimEvidence:
        spread = Spread(repeats, 9.0, 9.0, 9.0, "range")
        both = (replace(cell(n, 8, 10.0 - 4 * n), rows=rows, spread=spread) for n in (1, 2))
        return ClaimEvidence(name, tuple(verdicts.pairs(CLAIM, list(both))), "d", faithful)

    ordered = [
        evidence("large", 1000, 1),
        evidence("repeated", 100, 3),
        evidence("theirs", 100, 1, faithful=True),
        evidence("small", 100, 1),
    ]
    assert sorted(ordered[2:] + ordered[:2], key=lambda one: one.rank, reverse=True) == ordered
    assert [str(one) for one in ordered] == [
        "large: 1,000 rows, one run",
        "repeated: 100 rows, 3 repeats",
        "theirs: 100 rows, one run, the report's method",
        "small: 100 rows, one run",
    ]
