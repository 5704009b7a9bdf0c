"""Queries of a phase: vectors that are new to the store, with the neighbours that are known."""

from __future__ import annotations

import numpy as np
import pytest
from experiment_worlds import dataset

from vectrial.datasets.truth import truth_of
from vectrial.workload.queries import draw_queries


def test_no_round_has_a_query_of_the_dataset_nor_one_of_another_round() -> None:
    rows = dataset(200)
    truth = truth_of(rows, 5, None)
    queries = draw_queries(rows, truth, (1, 2), repeat=False)
    every = np.concatenate([rows.queries[None], queries.warmup[None], queries.rounds])
    assert (every[1:] != every[0]).any(axis=2).all()
    assert len(np.unique(every, axis=0)) == len(every)


@pytest.mark.parametrize("largest", [3.0, -3.0, 0.0, -1e-45])
def test_a_query_that_may_not_move_goes_up_by_units_in_the_last_place(largest: float) -> None:
    """As where its nearest rows are the query itself, and no others hold its filter."""
    rows = dataset(200)
    rows.queries[0] = 0
    rows.queries[0, 3] = largest
    truth = truth_of(rows, 5, None)
    truth.distances[0] = [0, 0, 0, np.inf, np.inf]
    rounds = draw_queries(rows, truth, (1, 2), repeat=False).rounds[:, 0]
    wanted = np.float32(largest)
    at = int((rounds[0] != rows.queries[0]).argmax())
    for turn in range(4):
        wanted = np.nextafter(wanted, np.float32(np.inf))
        if turn:  # the warm-up has the first
            assert rounds[turn - 1, at] == wanted
    assert not np.delete(rounds, at, axis=1).any()
