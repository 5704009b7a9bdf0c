"""Which rows are live after each step of a runbook, and what a file of one says."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectrial.model.errors import UserError
from vectrial.workload.runbook import (
    OWN,
    LiveRows,
    Operation,
    RunbookStep,
    check_steps,
    cluster_order,
    loads,
    read_steps,
    replaced_counts,
)

FILE = """
some-10M:
  max_pts: 1000
  1: {operation: insert, start: 0, end: 600}
  2: {operation: search}
  3: {operation: delete, start: 0, end: 100}
  4: {operation: replace, tags_start: 100, tags_end: 300, ids_start: 600, ids_end: 800}
  5: {operation: search}
  gt_url: none
"""


@pytest.mark.parametrize("name", OWN)
@given(rows=st.integers(40, 700))
def test_our_own_can_be_made_on_any_number_of_rows(name: str, rows: int) -> None:
    steps = check_steps(list(OWN[name](rows)), rows)
    assert steps[-1].operation is Operation.SEARCH
    live = LiveRows(rows)
    for step in steps:
        live.apply(step)
        if step.operation is Operation.SEARCH:
            assert len(live.tags) >= rows // 2 - 20
            assert len(set(live.rows.tolist())) == len(live.rows), "no row is there twice"


@given(
    st.lists(
        st.tuples(st.sampled_from([*Operation]), st.integers(0, 12), st.integers(0, 12)),
        max_size=20,
    )
)
def test_what_is_live_is_what_a_dictionary_says(
    told: list[tuple[Operation, int, int]],
) -> None:
    live, known = LiveRows(12), dict[int, int]()
    for operation, start, end in told:
        step = RunbookStep(operation, start, end, 12 - max(0, end - start))
        tags = range(start, end)
        possible = (
            start <= end
            and not (operation is Operation.INSERT and known.keys() & set(tags))
            and not (operation in ("delete", "replace") and set(tags) - known.keys())
        )
        if not possible:
            with pytest.raises(UserError):
                live.apply(step)
            continue
        live.apply(step)
        for at, tag in enumerate(tags):
            if operation is Operation.DELETE:
                del known[tag]
            elif operation is not Operation.SEARCH:
                known[tag] = tag if operation is Operation.INSERT else step.rows + at
        assert dict(zip(live.tags.tolist(), live.rows.tolist(), strict=True)) == known


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "book.yaml"
    path.write_text(FILE)
    steps = check_steps(read_steps(path, 1000), 1000)
    assert steps[0] == RunbookStep(Operation.INSERT, 0, 600)
    assert steps[3] == RunbookStep(Operation.REPLACE, 100, 300, 600)
    assert replaced_counts(steps) == [0, 0, 100, 300, 300]
    scaled = check_steps(read_steps(path, 80), 80)
    assert scaled[3] == RunbookStep(Operation.REPLACE, 10, 30, 60)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- 1", "expected a dataset"),
        ("a: {max_pts: 10, 1: {operation: insert, start: 0}}", "step 1: end is no whole number"),
        ("a: {max_pts: 10, 1: {operation: compact}}", "step 1 has no operation"),
        ("a: {max_pts: 9}\nb: {max_pts: 9}", "2 datasets"),
        ("a: [", "no runbook can be read"),
        ("[" * 50_000, "not nested so deep"),
        (
            "a: {" + ", ".join(f"{n}: {{operation: search}}" for n in range(20_001)) + "}",
            "20,001 steps: at most 20,000",
        ),
    ],
    ids=["list", "no end", "no operation", "two", "broken", "deep", "long"],
)
def test_what_is_no_runbook_says_so(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "book.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=said):
        read_steps(path, 10)


def test_of_a_file_with_several_datasets_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "book.yaml"
    path.write_text(
        "small-1M: {max_pts: 10, 1: {operation: insert, start: 0, end: 10}}\n"
        "large-10M: {max_pts: 100, 1: {operation: insert, start: 0, end: 100}}\n"
    )
    assert read_steps(path, 1000, "small-1M") == (RunbookStep(Operation.INSERT, 0, 10),)
    assert read_steps(path, 1000, "large-10M") == (RunbookStep(Operation.INSERT, 0, 100),)
    with pytest.raises(UserError, match="2 datasets") as several:
        read_steps(path, 1000)
    assert f"{path}#small-1M" in str(several.value.remedy)
    with pytest.raises(UserError, match="no runbook of a dataset 'large-1M'") as other:
        read_steps(path, 1000, "large-1M")
    assert "'large-10M'" in str(other.value.remedy)


@given(st.integers(20, 400), st.integers(0, 100), st.integers(1, 400))
def test_positions_beyond_the_most_live_rows_are_scaled_to_the_rows_that_there_are(
    reach: int, most: int, rows: int
) -> None:
    """As in big-ann's runbook of 2023: at most 10,292,043 rows of 29,998,994 are live."""
    third = reach // 3
    book = {
        "max_pts": most,
        1: {"operation": "insert", "start": 0, "end": third},
        2: {"operation": "insert", "start": third, "end": 2 * third},
        3: {"operation": "delete", "start": third // 2, "end": third},
        4: {
            "operation": "replace",
            "tags_start": third,
            "tags_end": 2 * third,
            "ids_start": reach - third,
            "ids_end": reach,
        },
        5: {"operation": "search"},
    }
    import yaml  # here: collecting the tests does not wait for it

    with TemporaryDirectory() as folder:
        path = Path(folder, "book.yaml")
        path.write_text(yaml.safe_dump({"a": book}))
        steps = check_steps(read_steps(path, rows), rows)
    if reach <= rows:
        assert [step.count for step in steps] == [third, third, third - third // 2, third, 0]
    assert steps[0].end == steps[1].start == steps[2].end == steps[3].start
    assert max(step.rows + step.count for step in steps) <= rows


@pytest.mark.parametrize(
    ("name", "times"),
    [("replace", 6.0), ("sliding_window", 1.5), ("hot_updates", 1.5), ("reload", 5.0)],
)
def test_loads_of_a_runbook_are_all_rows_that_it_writes(name: str, times: float) -> None:
    assert loads(list(OWN[name](1000))) == times


def test_a_step_that_cannot_be_made_has_its_number() -> None:
    steps = [RunbookStep(Operation.INSERT, 0, 5), RunbookStep(Operation.DELETE, 3, 6)]
    with pytest.raises(UserError, match="step 2: delete of tag 5, which is not there"):
        check_steps(steps, 10)


def test_clusters_come_one_after_the_other() -> None:
    centres = np.eye(4, dtype=np.float32) * 100
    which = np.random.default_rng(0).integers(0, 4, 200)
    order = cluster_order(centres[which], 1, 200)
    changes = np.count_nonzero(np.diff(which[order]))
    assert changes <= 200
    assert sorted(order.tolist()) == list(range(200))
