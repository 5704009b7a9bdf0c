"""WordNet 3.0: the gloss of every synset, with its metadata (format: wndb(5WN))."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from vectrial.model.errors import DataError
from vectrial.model.progress import Progress
from vectrial.util.packages import Client, Package, unpacked

PACKAGE = Package(
    Client.APT,
    "wordnet-base",
    "1:3.0-37",
    "61060d960f9ada8fa120872312eccd3ecebfbab8c4579e4f5a74e1cf67620752",
    6.5,
)
#: Names of the lexicographer files, in the order of their numbers: lexnames(5WN).
_LEX_NAMES = """
adj.all adj.pert adv.all noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body
noun.cognition noun.communication noun.event noun.feeling noun.food noun.group noun.location
noun.motive noun.object noun.person noun.phenomenon noun.plant noun.possession noun.process
noun.quantity noun.relation noun.shape noun.state noun.substance noun.time verb.body verb.change
verb.cognition verb.communication verb.competition verb.consumption verb.contact verb.creation
verb.emotion verb.motion verb.perception verb.possession verb.social verb.stative verb.weather
adj.ppl
"""
LEX_FILES = tuple(_LEX_NAMES.split())
_COLUMNS: dict[str, pa.DataType] = {
    "word": pa.string(),
    "pos": pa.string(),
    "lex_file": pa.string(),
    "n_words": pa.int64(),
    "n_pointers": pa.int64(),
    "gloss": pa.string(),
}
_SCHEMA = pa.schema(_COLUMNS)


def read(progress: Progress) -> tuple[list[str], pa.Table]:
    """All glosses, and a table with word, pos, lex_file, n_words, n_pointers and gloss."""
    folder = unpacked(PACKAGE, progress) / "usr" / "share" / "wordnet"
    progress(0, 0, "reading WordNet")
    rows = [row for pos in ("noun", "verb", "adj", "adv") for row in _synsets(folder, pos)]
    return [row["gloss"] for row in rows], pa.Table.from_pylist(rows, schema=_SCHEMA)


def _synsets(folder: Path, pos: str) -> list[dict[str, Any]]:
    path = folder / f"data.{pos}"
    rows = []
    with path.open(encoding="latin-1") as file:
        for number, line in enumerate(file, start=1):
            if line.startswith("  "):  # the licence, at the top
                continue
            try:
                rows.append(parse_synset(line, pos))
            except (ValueError, IndexError) as error:
                raise DataError(f"not a synset: {error}", where=f"{path}:{number}") from error
    return rows


def parse_synset(line: str, pos: str) -> dict[str, Any]:
    """One line of a data file: `offset lex_file type n_words (word id)… n_pointers … | gloss`.

    The number of words is hexadecimal, the number of pointers decimal.
    """
    head, _, gloss = line.partition(" | ")
    parts = head.split()
    n_words = int(parts[3], 16)
    return {
        "word": parts[4].replace("_", " "),
        "pos": pos,
        "lex_file": LEX_FILES[int(parts[1])],
        "n_words": n_words,
        "n_pointers": int(parts[4 + 2 * n_words]),
        "gloss": gloss.strip(),
    }
