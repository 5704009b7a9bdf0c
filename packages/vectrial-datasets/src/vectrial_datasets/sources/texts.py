"""Dictionaries as datasets of MiniLM embeddings."""

from __future__ import annotations

import pyarrow as pa

from vectrial.datasets.sources.material import Material
from vectrial.datasets.sources.texts import Corpus, material_of
from vectrial.model.progress import Progress
from vectrial_datasets.sources.dictionaries import read_edict, read_gcide, read_wordnet


def glosses(rows: int | None, queries: int, progress: Progress, *, filtered: bool) -> Material:
    """WordNet's glosses."""
    texts, metadata = read_wordnet(progress)
    corpus = Corpus(texts, metadata, ("pos", "lex_file"), ("n_words", "n_pointers"))
    return material_of(corpus, rows, queries, progress, filtered=filtered)


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
    return material_of(corpus, rows, queries, progress, filtered=False)
