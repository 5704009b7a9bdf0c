"""Judges and recorders of the engine, from the types of the model."""

from __future__ import annotations

from collections.abc import Iterable

from vectrial._engine import Judge, Recorder
from vectrial.model.dataset import Truth


def judge_of(truth: Truth) -> Judge:
    """The judge of answers to the queries of a ground truth."""
    return Judge(truth.k, truth.accept_offsets, truth.accept_ids, truth.available)


def merge(recorders: Iterable[Recorder]) -> Recorder:
    """Merge the samples of all recorders into the first, and return it; there is at least one.

    Raises:
        ValueError: they were judged by different truths, or started at different instants.
    """
    whole, *others = recorders
    for other in others:
        whole.merge(other)
    return whole
