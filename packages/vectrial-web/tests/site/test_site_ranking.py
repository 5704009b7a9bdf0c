"""Ranks: only what is told apart, among like with like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from vectrial.document.blocks import plain_cell
from vectrial.model.trial import Series
from vectrial_web.site.entries import RunFacts, StoreEntry
from vectrial_web.site.questions import QUESTIONS, Question, RankingTerms
from vectrial_web.site.ranking import rankings

BY_NAME = {question.name: question for question in QUESTIONS}
FASTEST, KEPT, NODES = BY_NAME["fastest"], BY_NAME["power-cuts"], BY_NAME["nodes"]
LIKE = RankingTerms(
    "words", 1000, (("clients", "1"), ("machine", "this one")), "words", "Machine: this"
)
RUN = RunFacts("one", "one", "one", 1.0, "0.1.0", "this one", "runs/one/index.html")


def entry(
    store: str,
    values: Sequence[float] = (),
    question: Question = FASTEST,
    *,
    run: RunFacts = RUN,
    like: RankingTerms = LIKE,
    base: Sequence[float] = (),
    share: tuple[int, int] | None = None,
    why: str = "",
) -> StoreEntry:
    """An answer with these values of its repeats."""
    cells = tuple(plain_cell("") for _ in (*question.quiet, *question.shown))
    return StoreEntry(
        question.name, run, like, store, "1.0", store, Series(store, "hnsw", "native"), "", cells,
        dict(enumerate(values, 1)), dict(enumerate(base, 1)), share, len(values), "ok", why, "",
    )  # fmt: skip


def ranks(*entries: StoreEntry) -> dict[str, int | None]:
    """The rank of each store, on one sheet."""
    (ranking,) = rankings(FASTEST, entries)
    return {place.entry.store: place.rank for place in ranking.places}


def test_what_is_told_apart_has_ranks() -> None:
    found = ranks(
        entry("slow", (10, 10.1, 10.2)),
        entry("fast", (30, 30.2, 30.1)),
        entry("mid", (20, 20.1, 20)),
    )
    assert found == {"fast": 1, "mid": 2, "slow": 3}
    assert list(found) == ["fast", "mid", "slow"]


def test_what_repeats_do_not_tell_apart_shares_a_rank_and_stands_side_by_side() -> None:
    noisy = entry("noisy", (20, 31, 42)), entry("other", (22, 30, 38)), entry("slow", (1, 1.01, 1))
    assert ranks(*noisy) == {"noisy": 1, "other": 1, "slow": 3}
    (ranking,) = rankings(FASTEST, noisy)
    assert ranking.places[0].level == ("other",)
    assert [place.entry.store for place in ranking.first] == ["noisy", "other"]


def test_a_difference_below_the_threshold_is_a_tie() -> None:
    assert ranks(entry("a", (100, 100, 100)), entry("b", (104, 104, 104))) == {"b": 1, "a": 1}


def test_what_may_not_be_ranked_is_shown_without_a_rank() -> None:
    found = ranks(entry("a", (10, 10, 10)), entry("b", (90,), why="1 repeat: a rank needs 3"))
    assert found == {"a": 1, "b": None}


@pytest.mark.parametrize(
    "other", [("clients", "8"), ("machine", "another one"), ("limits", "1 processor")]
)
def test_unlike_terms_are_never_ranked_together(other: tuple[str, str]) -> None:
    terms = tuple(sorted({**dict(LIKE.terms), other[0]: other[1]}.items()))
    unlike = replace(LIKE, terms=terms)
    found = rankings(FASTEST, [entry("a", (1, 1, 1)), entry("b", (9, 9, 9), like=unlike)])
    assert [len(one.places) for one in found] == [1, 1]
    assert all(place.rank == 1 for one in found for place in one.places)
    titles = {one.like.title for one in found}
    assert len(titles) == 2, "sheets of one title say in what they differ"
    assert any(other[1] in title for title in titles)


def test_of_several_runs_the_newest_that_may_be_ranked_counts() -> None:
    later = replace(RUN, id="two", started_s=2.0)
    last = replace(RUN, id="three", started_s=3.0)
    (ranking,) = rankings(
        FASTEST,
        [
            entry("a", (1, 1, 1)),
            entry("a", (2, 2, 2), run=later),
            entry("a", (3,), run=last, why="1 repeat"),
        ],
    )
    assert [place.entry.run.id for place in ranking.places] == ["two"]


def test_a_baseline_gives_a_verdict_and_no_rank() -> None:
    (ranking,) = rankings(
        NODES,
        [
            entry("more", (30, 30, 30), NODES, base=(10, 10, 10)),
            entry("less", (5, 5, 5), NODES, base=(10, 10, 10)),
            entry("same", (9, 10, 11), NODES, base=(11, 9, 10)),
            entry("once", (9,), NODES, base=(1, 1, 1), why="1 repeat: a rank needs 3"),
        ],
    )
    kinds = {p.entry.store: p.verdict and str(p.verdict.kind) for p in ranking.places}
    assert kinds == {"more": "better", "less": "worse", "same": "undecided", "once": None}
    assert all(place.rank is None for place in ranking.places)
    assert ranking.ranked == 3


def test_kept_promises_stand_side_by_side_before_broken_ones() -> None:
    (ranking,) = rankings(
        KEPT,
        [
            entry("lost", question=KEPT, share=(7, 30)),
            entry("b", question=KEPT, share=(0, 10)),
            entry("gone", question=KEPT, share=(1, 1)),
            entry("a", question=KEPT, share=(0, 30)),
        ],
    )
    assert [place.entry.store for place in ranking.places] == ["a", "b", "lost", "gone"]
    assert all(place.rank is None for place in ranking.places)
