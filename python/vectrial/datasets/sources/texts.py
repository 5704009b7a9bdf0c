"""Texts with metadata as datasets of MiniLM embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from vectrial.datasets.sources import debian, filter_sets, minilm
from vectrial.datasets.sources.dictionaries import read_edict, read_gcide, read_wordnet
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


def glosses(rows: int | None, queries: int, progress: Progress, *, filtered: bool) -> Material:
    """WordNet's glosses."""
    texts, metadata = read_wordnet(progress)
    corpus = Corpus(texts, metadata, ("pos", "lex_file"), ("n_words", "n_pointers"))
    return _material(corpus, rows, queries, progress, filtered=filtered)


def packages(rows: int | None, queries: int, progress: Progress, *, filtered: bool) -> Material:
    """Debian's package descriptions, from the lists on this machine."""
    texts, metadata, release = debian.read(progress)
    categories = ("section", "maintainer", "homepage_domain", "architecture", "role")
    corpus = Corpus(texts, metadata, categories, ("installed_kib", "n_depends"), (release,))
    return _material(corpus, rows, queries, progress, filtered=filtered)


def dictionaries(rows: int | None, queries: int, progress: Progress) -> Material:
    """WordNet's glosses, GCIDE's senses and EDICT's entries; repeated texts are taken once."""
    meanings, about = read_wordnet(progress)
    words = map(str, about.column("word").to_pylist())
    sources: dict[str, list[tuple[str, str]]] = {
        "WordNet": list(zip(words, meanings, strict=True)),
        "GCIDE": read_gcide(progress),
        "EDICT": read_edict(progress),
    }
    entries = [(name, word, text) for name, own in sources.items() for word, text in own]
    entry_texts = [text for _, _, text in entries]
    metadata = pa.table(
        {
            "dictionary": [name for name, _, _ in entries],
            "word": [word for _, word, _ in entries],
            "n_words": pa.array([len(text.split()) for text in entry_texts], pa.int64()),
            "text": entry_texts,
        }
    )
    counts = ", ".join(f"{len(own)} of {name}" for name, own in sources.items())
    corpus = Corpus(entry_texts, metadata, ("dictionary",), ("n_words",), (counts,))
    return _material(corpus, rows, queries, progress, filtered=False)


def _material(
    corpus: Corpus, rows: int | None, queries: int, progress: Progress, *, filtered: bool
) -> Material:
    """The distinct texts in hash order: the first are the queries, the following ones the rows."""
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
