"""What a run answers: prices where its suite has them."""

from __future__ import annotations

from dataclasses import replace

from priced_runs import priced_run

from vectrial.report.sections.cost import priced_stores
from vectrial_web.site.entries import RunFacts, entries_of
from vectrial_web.site.questions import QUESTIONS
from vectrial_web.site.ranking import rankings
from vectrial_web.site.values import Values

#: The question of prices, of data of any size.
PRICES = replace(next(q for q in QUESTIONS if q.priced), rows=0)
FACTS = RunFacts("one", "one", "one", 1.0, "0.1.0", "a machine", "runs/one/index.html")


def test_stores_are_ranked_by_the_price_that_the_report_shows() -> None:
    run = priced_run().data()
    values = Values(run, "runs/one")
    found = entries_of(run, FACTS, values.address, [PRICES])
    due = {
        one.point.series: one.due.per_million
        for one in priced_stores(run)
        if one.point is not None and one.due is not None
    }
    assert len(found) > 1
    for entry in found:
        assert not entry.why
        assert entry.cells[-2].value == due[entry.series]
        low, high = min(entry.values.values()), max(entry.values.values())
        assert low <= due[entry.series] <= high
    for ranking in rankings(PRICES, found):
        prices = [place.entry.cells[-2].value for place in ranking.places]
        assert prices == sorted(prices), "the cheapest is first"
        assert ranking.places[0].rank == 1


def test_a_run_answers_nothing_that_it_did_not_measure() -> None:
    run = priced_run().data()
    found = entries_of(run, FACTS, Values(run, "runs/one").address)
    assert {entry.question for entry in found} <= {"fastest"}
