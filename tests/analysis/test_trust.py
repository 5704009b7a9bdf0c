"""Which figures are ranked, where answers may be remembered ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from recorded_trials import recorded_phase, recorded_trial

from vectrial.analysis.analysis import remark
from vectrial.analysis.audit import unranked
from vectrial.analysis.run_data import Point
from vectrial.analysis.trial import Trial
from vectrial.model.consistency import FIRST_ANSWERS


def trial(number: int, first_us: float, later_us: float | None, ef: int = 64) -> Trial:
    """A repeat of a search whose first and later answers took so long in the median."""
    metrics = {
        "recall_mean": 0.99,
        "first_pass_p50": first_us,
        "later_pass_p50": later_us,
        "first_pass_count": 1000.0,
        "later_pass_count": 0.0 if later_us is None else 5000.0,
    }
    phase = recorded_phase(
        number, "search", {n: v for n, v in metrics.items() if v is not None}, {"known_by": number}
    )
    return recorded_trial(number, phase, params={"ef_search": ef}, repeat=number)


@pytest.mark.parametrize("repeats", [1, 3])
def test_answers_that_are_remembered_in_every_repeat_are_not_ranked(repeats: int) -> None:
    trials = [trial(number, 446, 173) for number in range(repeats)]
    found = unranked(trials, [])
    assert list(found) == list(range(repeats))
    assert all(text.startswith("answers seem to be cached: the first") for text in found.values())


def test_what_every_repeat_shows_is_said_once() -> None:
    trials = [trial(number, 446 + number, 173) for number in range(3)]
    (said,) = set(unranked(trials, []).values())
    assert said.count(FIRST_ANSWERS) == 1
    assert said.endswith("and so in all 3 repeats")
    notes = [f"{FIRST_ANSWERS} {446 + number} us: answers are remembered" for number in range(3)]
    noted = [replace(one.phases[0], reason=note) for one, note in zip(trials, notes, strict=True)]
    plain = Point(
        trials[0].series, "words", 10, "search", "search", {}, {}, "ok", None, tuple(noted)
    )
    assert remark(plain) == notes[0]
    assert remark(replace(plain, doubt=said)) == said


def test_one_disturbed_repeat_of_three_is_the_machine() -> None:
    """As seen of USearch, Qdrant Edge and FAISS, which remember nothing, with 0.6 s a phase."""
    assert unranked([trial(1, 245, 236), trial(2, 328, 322), trial(3, 446, 173)], []) == {}


def test_repeats_without_a_later_answer_do_not_speak_for_it() -> None:
    assert list(unranked([trial(1, 446, 173), trial(2, 446, None)], [])) == [1]


def test_other_settings_are_other_points() -> None:
    assert list(unranked([trial(1, 446, 173), trial(2, 100, 100, ef=16)], [])) == [1]
