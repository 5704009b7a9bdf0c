"""Every lie that a store of ours tells, and the check that catches it: the page docs/lies.md.

Run as a program, it prints the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "lies.md"
_HEAD = """# Lies, and the checks that catch them

Stores that are wrong on purpose, one lie each, and the check by which each is caught or made
visible. A store that lies is measured like any other: the gate asks it before anything is timed,
every timed answer is judged, and outages look for what it acknowledged. `make lies` writes this
page from the tests, and a test compares it.

| lie | where it is caught | test |
| --- | --- | --- |
"""
_GATE = "tests/gate/test_gate.py"
_ONE = "test_a_fault_is_caught_and_named_and_nothing_else_blamed"
_SEVERAL = "test_a_fault_that_shows_in_several_places_is_named_too"
_ANSWERS, _ROWS = "tests/liars/test_answers.py", "tests/liars/test_rows.py"
_OUTAGES = "tests/experiments/test_durability.py"


@dataclass(frozen=True)
class Lie:
    """kind: the store that tells it. caught: by what, in words. test: file and function."""

    kind: type[Any]
    caught: str
    test: tuple[str, str]

    @property
    def text(self) -> str:
        """What the lie is: the first sentence of the class."""
        words = " ".join((self.kind.__doc__ or _spoken(self.kind.__name__)).split())
        return words.partition("; ")[0].rstrip(".")


def _spoken(name: str) -> str:
    """'Duplicate ids' of `DuplicateIds`."""
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
    return words.strip().capitalize()


def lies() -> Iterator[Lie]:
    """All of them: of the gate, of timed answers, of rows, of outages."""
    yield from _of_the_gate()
    yield from _of_answers()
    yield from _of_rows()
    yield from _of_outages()


def _of_the_gate() -> Iterator[Lie]:
    from gate.test_gate import ONE, SEVERAL

    seen = set()
    for kind, check, *_ in ONE:
        seen.add(kind)
        yield Lie(kind, f"gate: `{check}`", (_GATE, _ONE))
    for kind, _, check, _ in SEVERAL:
        if kind not in seen:
            seen.add(kind)
            yield Lie(kind, f"gate: `{check}`", (_GATE, _SEVERAL))


def _of_answers() -> Iterator[Lie]:
    from peeking_store import Peeking

    from liars import answers

    invalid = "test_who_answers_otherwise_under_the_clock_is_invalid"
    for kind, what in (
        (answers.ShorterLater, "recall of timed answers: invalid"),
        (answers.TwiceLater, "timed answers: ids named twice"),
        (answers.ScoresLater, "timed answers: scores computed again"),
        (answers.UnknownLater, "timed answers: rows never written"),
        (answers.WorstFirstLater, "timed answers: order by the store's own scores"),
    ):
        yield Lie(kind, what, (_ANSWERS, invalid))
    yield Lie(
        answers.AlmostExact,
        "timed answers of an exact index: the share of neighbours missed, at the figure",
        (_ANSWERS, "test_an_exact_index_that_misses_a_neighbour_in_thousands_says_so"),
    )
    yield Lie(
        answers.SeldomShorter,
        "timed answers: `short_answers`, at the figure",
        (_ANSWERS, "test_short_answers_are_told_at_the_figure"),
    )
    yield Lie(
        answers.ShorterUnderLoad,
        "recall is that of the very answers under load: invalid",
        (_ANSWERS, "test_recall_that_falls_under_load_is_that_of_the_figure"),
    )
    yield Lie(
        answers.FilterLater,
        "timed answers: rows outside the filter",
        (_ANSWERS, "test_a_filter_that_is_ignored_now_and_then_is_found_in_the_timed_answers"),
    )
    yield Lie(
        answers.Pausing,
        "closed loops: `stalls`, with the open loop as remedy",
        (_ANSWERS, "test_a_closed_loop_that_stands_still_says_so"),
    )
    yield Lie(
        Peeking,
        "it finds none: they are hidden from the process, where Vectrial runs as root",
        ("tests/run/test_hidden_data.py", "test_a_store_finds_no_answers_on_the_disk"),
    )
    yield Lie(
        answers.StaleAnswers,
        "no query comes twice, unless the suite says so",
        (_ANSWERS, "test_nothing_is_gained_by_remembering_where_no_query_comes_twice"),
    )
    yield Lie(
        answers.SlowAtFirst,
        "first pass over the queries against later ones",
        (_ANSWERS, "test_who_remembers_answers_is_told_where_queries_repeat"),
    )
    yield Lie(
        answers.RoundsOff,
        "first pass over the queries against later ones; of a later phase, new queries like those"
        " that were sent against rows",
        (_ANSWERS, "test_who_remembers_what_an_earlier_phase_asked_is_told"),
    )


def _of_rows() -> Iterator[Lie]:
    from liars import rows

    missed = "test_one_row_in_a_thousand_is_missed"
    unseen = "test_a_change_that_searches_do_not_see_has_no_valid_figure"
    for kind, what, test in (
        (rows.Drops, "gate: `row_count`", missed),
        (rows.DropsAndCounts, "gate: `all_rows_kept`", missed),
        (rows.NotIndexed, "gate: `rows_found_by_search`", missed),
        (rows.DropsChanges, "`crud`: every effect is verified", unseen),
        (rows.ShowsDeleted, "gate: `deleted_rows_gone`; `crud`: `wrong_by_search`", unseen),
        (rows.UpdatesNotIndexed, "`crud`: `wrong_by_search`", unseen),
        (rows.FewUpdatesNotIndexed, "`crud`: `wrong_by_search`", unseen),
        (
            rows.LosesSome,
            "gate: rows that the index does not find are told",
            "test_rows_that_an_index_may_lose_are_told",
        ),
        (
            rows.WritesElsewhere,
            "fewer bytes on disk than the vectors have: in no headline",
            "test_bytes_that_are_elsewhere_are_smallest_in_no_headline",
        ),
        (
            rows.KeepsNothing,
            "`durability`: kill",
            "test_a_store_that_keeps_nothing_does_not_pass_as_synced",
        ),
    ):
        yield Lie(kind, what, (_ROWS, test))


def _of_outages() -> Iterator[Lie]:
    import liar_stores

    for kind, what in (
        (liar_stores.Unsynced, "`durability`: power cut"),
        (liar_stores.SyncedLate, "`durability`: power cut, lost rows"),
        (liar_stores.OutOfTheFolder, "`durability`: power cut"),
        (liar_stores.Forgetful, "`durability`: kill, lost rows"),
        (liar_stores.Undeleting, "`durability`: kill, deleted rows that are back"),
        (liar_stores.Stale, "`durability`: kill, old rows"),
        (liar_stores.Torn, "`durability`: kill, torn rows"),
    ):
        yield Lie(kind, what, (_OUTAGES, "test_who_does_not_is_caught"))


def page() -> str:
    """The page."""
    lines = (f"| {one.text} | {one.caught} | `{'::'.join(one.test)}` |\n" for one in lies())
    return _HEAD + "".join(lines)


def main() -> None:
    """Print the page."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "support")]
    print(page(), end="")


if __name__ == "__main__":
    main()
