"""Numbers as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectrial.document.blocks import Column, Report, Section, Table, Text
from vectrial.document.render import markdown
from vectrial.stats.intervals import Spread
from vectrial.util import formatting


def test_a_recall_of_four_decimals_is_shown_as_it_is() -> None:
    wrong = [i for i in range(10_001) if formatting.recall(i / 10_000) != f"{i / 10_000:.4f}"]
    assert wrong == []
    assert formatting.recall((0.9007 + 0.9035) / 2) == "0.9021", "a median of two repeats"


@given(st.floats(0, 1))
def test_a_recall_is_never_shown_greater_than_it_is(value: float) -> None:
    shown = float(formatting.recall(value))
    assert shown <= value + 1e-9
    assert value - shown < 1e-4 + 1e-9
    assert (shown == 1) is (value == 1)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.9496, "0.9496"), (0.99951, "0.9995"), (1 - 1e-7, "0.9999"), (1 - 1e-15, "0.9999"),
     (1.0, "1.0000"), (0.0, "0.0000")],
)  # fmt: skip
def test_a_metric_that_is_a_recall(value: float, shown: str) -> None:
    for name in ("recall_mean", "recall_p05", "recall_min"):
        assert formatting.figure(name, value, "1") == shown


def test_other_metrics_are_shown_by_their_unit() -> None:
    assert formatting.figure("qps", 1234.5, "1/s") == "1,234/s"
    assert formatting.figure("errors", 3.0, "1") == "3"


@pytest.mark.parametrize(
    ("low", "high", "unit", "shown"),
    [(275, 293, "1/s", "275–293/s"), (10.6e3, 11.4e3, "us", "10.6–11.4 ms"),
     (921, 1070, "us", "921 µs–1.07 ms"), (3, 5, "1", "3–5"), (275, 275.2, "1/s", "")],
)  # fmt: skip
def test_a_unit_stands_once_in_a_spread(low: float, high: float, unit: str, shown: str) -> None:
    assert formatting.spread(Spread(2, low, low, high, "range"), unit) == shown


def test_a_group_of_columns_is_named_in_markdown() -> None:
    pair = (Column("a", "found", group="AUROC"), Column("b", "exact", group="AUROC"))
    columns = (Column("s", "Store", numeric=False), *pair, Column("e", "Errors"))
    table = Table("t", "T", columns, ())
    said = markdown.render(Report("R", "", (), (), (), (Section("s", "S", "", (table,)),)))
    assert "| Store | AUROC: found | exact | Errors |" in said.splitlines()


@pytest.mark.parametrize("code", ["a", "```", "x ```` y", "``", ""])
def test_code_is_shown_whole_in_markdown(code: str) -> None:
    section = Section("s", "S", "", (Text((f"{code}\nend",), code=True),))
    said = markdown.render(Report("R", "", (), (), (), (section,))).splitlines()
    at = said.index("end")
    fence = said[at + 1]
    assert said[at - 2] == fence
    assert set(fence) == {"`"}
    assert len(fence) >= 3
    assert fence not in code
    assert said[at - 1] == code
