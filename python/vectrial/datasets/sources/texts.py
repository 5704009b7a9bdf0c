"""Texts with metadata as datasets of MiniLM embeddings: Debian's here, any corpus by
`material_of`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from vectrial.datasets.sources import debian, filter_sets, minilm
from vectrial.datasets.sources.material import (
    Material,
    at_most,
    extra,
    in_hash_order,
    random_numbers,
)
from vectrial.model.progress import Progress

_SEED = 384


@dataclass(frozen=True)
class Corpus:
    """Texts with their metadata, and the columns that filters are made from."""

    texts: Sequence[str]
    metadata: pa.Table
    categories: tuple[str, ...]
    numbers: tuple[str, ...]
    notes: tuple[str, ...] = ()


def packages(rows: int | None, queries: int, progress: Progress, *, filtered: bool) -> Material:
    """Debian's package descriptions, from the lists on this machine."""
    texts, metadata, release = debian.read(progress)
    categories = ("section", "maintainer", "homepage_domain", "architecture", "role")
    corpus = Corpus(texts, metadata, categories, ("installed_kib", "n_depends"), (release,))
    return material_of(corpus, rows, queries, progress, filtered=filtered)


def material_of(
    corpus: Corpus, rows: int | None, queries: int, progress: Progress, *, filtered: bool
) -> Material:
    """A corpus as a dataset: its distinct texts in hash order, of which the first are the queries
    and the following ones the rows.

    Raises:
        SourceUnavailable: the model's package cannot be had.
        UserError: more rows are requested than there are, or the extra `data` is not installed.
    """
    order = in_hash_order(corpus.texts)
    used = queries + at_most(len(order) - queries, rows, "the corpus")
    chosen = order[:used]
    vectors = minilm.embed([corpus.texts[row] for row in chosen], progress)
    table = corpus.metadata.append_column(
        "random_number", pa.array(random_numbers(corpus.metadata.num_rows, _SEED))
    ).take(np.array(chosen))
    queries_table, base = table.slice(0, queries), table.slice(queries)
    notes = (
        f"{len(corpus.texts)} texts, {len(order)} of them distinct",
        f"embedded with onnxruntime {extra('onnxruntime').__version__}",
        *corpus.notes,
    )
    made = Material(vectors[queries:], vectors[:queries], base, notes=notes)
    if not filtered:
        return made
    progress(0, 0, "choosing filters")
    columns = {"categories": corpus.categories, "numbers": corpus.numbers}
    return filter_sets.with_filters(made, queries_table, **columns, seed=_SEED)
