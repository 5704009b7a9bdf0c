"""What the report says of the greatest load within limits."""

from __future__ import annotations

import io
from typing import Any

import capacity_runs as made
import pytest
from report_tables import rows_of
from rich.console import Console

from vectrial.analysis import capacity as capacities
from vectrial.analysis.analysis import sweeps
from vectrial.document.blocks import Answer, Report
from vectrial.report.build import build, summary

TITLE = "words · 50,000 rows · k = 10"
WITHIN = "p99 ≤ 20 ms, recall ≥ 0.95, errors ≤ 0.10%"


def card_of(report: Report) -> Answer:
    ((title, (card,)),) = report.answers
    assert title == TITLE
    assert card.question == "Highest sustained load"
    return card


def test_an_answer_is_no_point_of_one_caller_and_has_a_card() -> None:
    """Neither is a rate beside the answers of one caller alone, nor one of these beside a rate."""
    trials = [
        made.trial("a", made.alone(500), made.look(1, 1000), made.sustains(4000)),
        made.trial("b", made.alone(900), made.nothing("no rate was confirmed: p99 31 ms")),
    ]
    run = made.run_of(trials)
    assert sweeps(run) == []
    report = build(run)
    card = card_of(report)
    assert (card.answer, card.figure) == ("a", "4,000/s")
    assert card.bound == f"{WITHIN}. The only one with such a figure."
    assert card.series is not None
    names = {section.name for section in report.sections}
    assert "capacity" in names
    assert not names & {"glance", "speed", "others"}


def test_rates_that_were_looked_at_once_are_no_lack_of_repeats() -> None:
    """Each repeat looks at rates of its own; only its answer has a counterpart in the others."""
    trials = [
        made.trial("a", made.look(1, 1000.0 + repeat), made.sustains(900), repeat=repeat)
        for repeat in (1, 2, 3)
    ]
    report = build(made.run_of(trials))
    assert not any("no interval" in told for told in report.warnings)
    report = build(made.run_of(trials[:1]))
    assert any(told.startswith("1 repeat of capacity: no interval") for told in report.warnings)


@pytest.mark.parametrize(
    ("other", "answer", "figure", "bound"),
    [
        (made.sustains(2000), "undecided", "only 1 repeat", "The order may be chance."),
        (made.at_least(3000), "a", "4,000/s", "with such a figure. Besides, b at least 3,000/s."),
        (made.at_least(8000), "not known", "a sustains 4,000/s", "Besides, b at least 8,000/s."),
    ],
)
def test_what_another_does_at_least_bounds_the_claim(
    other: Any, answer: str, figure: str, bound: str
) -> None:
    trials = [made.trial("a", made.sustains(4000)), made.trial("b", made.alone(900), other)]
    card = card_of(build(made.run_of(trials)))
    assert (card.answer, card.figure) == (answer, figure)
    assert bound in card.bound


def test_where_there_is_no_answer_the_card_says_so() -> None:
    trials = [made.trial("a", made.alone(500), made.nothing("recall 0.95 is not reached"))]
    report = build(made.run_of(trials))
    card = card_of(report)
    assert (card.answer, card.figure) == ("none", WITHIN)
    assert card.bound == "No rate was confirmed. The reasons are below."
    (row,) = rows_of(report, "capacity-words")
    assert row["sustained_qps"].note == "recall 0.95 is not reached"
    least = made.run_of([made.trial("a", made.alone(500), made.at_least(40))])
    assert card_of(build(least)).bound.startswith("Only a lower bound is known: a at least 40.0/s.")
    out = io.StringIO()
    Console(file=out, width=200).print(summary(least))
    assert "Highest sustained load: none" in out.getvalue()
    assert "no measurements" not in out.getvalue()


def test_other_limits_are_another_question() -> None:
    strict = made.sustains(100)
    strict.params = {**strict.params, "p99_ms": 1.0}
    trials = [made.trial("a", made.sustains(4000)), made.trial("b", strict)]
    ((_, cards),) = build(made.run_of(trials)).answers
    assert [card.answer for card in cards] == ["a", "b"]


def test_a_repeat_without_an_answer_is_told_and_its_errors_are_counted() -> None:
    why = "no rate was confirmed: at 900/s: p99 40 ms"
    lost = made.nothing(why)
    lost.errors = [("timeout", 7, ["no answer within 5 s"])]
    trials = [
        made.trial("a", made.alone(500), answer, repeat=repeat)
        for repeat, answer in enumerate((made.sustains(1000), made.sustains(1010), lost), 1)
    ]
    report = build(made.run_of(trials))
    (row,) = rows_of(report, "capacity-words")
    assert row["repeats"].value == 2
    assert row["repeats"].note == f"1 of 3 repeats are invalid: {why}"
    told = {row["what"].value: row for row in rows_of(report, "not-measured")}
    assert why in told["invalid repeats of capacity"]["reason"].text
    assert told["errors in capacity"]["count"].value == 7
    assert "no answer within 5 s" in told["errors in capacity"]["reason"].text


def test_every_look_is_shown_with_its_data_and_nowhere_else() -> None:
    trials = [
        made.trial("a", made.alone(500), made.look(1, rate, "p99 31 ms"), dataset=name, rows=rows)
        for name, rows, rate in (("words", 1000, 50.0), ("words", 2000, 60.0), ("more", 9, 70.0))
    ]
    report = build(made.run_of(trials))
    looks = rows_of(report, "capacity-looks")
    assert [(row["dataset"].text, row["rate"].value) for row in looks] == [
        ("words, 1,000 rows", 50.0),
        ("words, 2,000 rows", 60.0),
        ("more, 9 rows", 70.0),
    ]
    assert {row["verdict"].text for row in looks} == {"failed: p99 31 ms"}
    passes = rows_of(report, "capacity-passes")
    assert [row["qps"].value for row in passes] == [500, 500, 500]
    assert {row["setting"].text for row in passes} == {"ef_search=40"}
    assert not [table for table in report.tables() if table.name == "others"]
    names = [table.name for table in report.tables()] + [f.name for f in report.figures()]
    assert len(names) == len(set(names))


def test_a_rate_has_its_unit_in_the_head_of_its_column() -> None:
    trials = [made.trial("a", made.alone(500), made.sustains(4000))]
    report = build(made.run_of(trials))
    (answer,) = rows_of(report, "capacity-words")
    assert answer["sustained_qps"].text == "4,000"
    (alone,) = rows_of(report, "capacity-passes")
    assert alone["qps"].text == "500"


def test_an_answer_names_the_range_of_its_confirmations_and_what_else_ran() -> None:
    phases = [
        made.look(number, 4000.0, p99_us=p99) for number, p99 in ((1, 5e3), (2, 6e3), (3, 9e3))
    ]
    for phase, cores in zip(phases, (0.0, 1.24, 0.3), strict=True):
        phase.name = "confirm"
        phase.metrics["other_cores"] = cores
    run = made.run_of(
        [made.trial("a", made.look(0, 8000.0, "p99 31 ms"), *phases, made.sustains(4000))]
    )
    (trial,) = run.trials
    text = capacities.sentence(trial)
    assert "p99 9 ms (from 5 ms in 3 confirmations)" in text
    assert text.endswith("other work kept up to 1.2 processors busy meanwhile")
    assert [one.value("latency_p99") for one in capacities.confirmations(trial)] == [5e3, 6e3, 9e3]
    quiet = made.run_of([made.trial("a", made.sustains(4000))])
    assert "other work" not in capacities.sentence(quiet.trials[0])
