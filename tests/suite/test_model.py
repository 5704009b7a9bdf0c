"""Suite files: what is accepted, and what a person is told when it is not."""

from __future__ import annotations

import pytest

from vectrial.model.errors import UserError
from vectrial.suite.model import parse_suite

GOOD = """
name = "t"
repeats = 2
[[datasets]]
name = "clustered-8-1k"
rows = 500
[[stores]]
store = "memory"
index = "flat"
params = { m = [8, 16] }
[[experiments]]
experiment = "search"
search = { ef_search = [16, 32] }
"""


def test_good_suite_keeps_every_value() -> None:
    suite = parse_suite(GOOD, "t.toml")
    assert (suite.name, suite.repeats, suite.k, suite.seed) == ("t", 2, 10, 42)
    assert suite.datasets[0].rows == 500
    assert suite.stores[0].params == {"m": [8, 16]}
    assert suite.experiments[0].parameters() == {"search": {"ef_search": [16, 32]}}


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("repeats = 2", "repeat = 2", ["unknown key 'repeat'", "did you mean 'repeats'?"]),
        ("rows = 500", "row = 500", ["datasets[0].row", "did you mean 'rows'?"]),
        ("rows = 500", "rows = 0", ["datasets[0].rows", "greater than 0", "got 0"]),
        ("rows = 500", 'rows = "many"', ["datasets[0].rows", "integer", "'many'"]),
        ('store = "memory"', 'stor = "memory"', ["stores[0].stor", "did you mean 'store'?"]),
        ('store = "memory"', "", ["stores[0].store", "missing"]),
        ("repeats = 2", 'order = "turn"', ["order", "'turns'", "'turn'"]),
        ("repeats = 2", "repeats = 0", ["repeats", "greater than or equal to 1"]),
        ("[[experiments]]\nexperiment", "[[experiment]]\nexperiment", ["unknown key 'experiment'"]),
        ('name = "t"', "name = t", ["not valid TOML", "line 2"]),
    ],
)
def test_bad_suite_names_file_key_and_remedy(old: str, new: str, named: list[str]) -> None:
    assert old in GOOD
    with pytest.raises(UserError) as caught:
        parse_suite(GOOD.replace(old, new, 1), "t.toml")
    message = str(caught.value)
    assert message.startswith("t.toml: ")
    for part in named:
        assert part in message
    assert "\n" not in message
