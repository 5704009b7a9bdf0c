"""Dictionaries, each read out of its package: the text of every sense.

WordNet 3.0 (format: wndb(5WN)): the gloss of every synset, with its metadata.

GCIDE, the Collaborative International Dictionary of English (format: dictd(8)). An index line has a
headword, and offset and length of its entry in base 64; the entries are one gzip file. Within an
entry, senses are numbered, and each ends with its source in brackets.

EDICT, the Japanese-English dictionary made of JMdict: a line
`word [reading] /(part of speech) (1) gloss/gloss/(2) gloss/`, in EUC-JP.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from vectrial.model.errors import DataError
from vectrial.model.progress import Progress
from vectrial.util.packages import Client, Package, unpacked_folder

WORDNET = Package(
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
_GLOSS_COLUMNS: dict[str, pa.DataType] = {
    "word": pa.string(),
    "pos": pa.string(),
    "lex_file": pa.string(),
    "n_words": pa.int64(),
    "n_pointers": pa.int64(),
    "gloss": pa.string(),
}
_GLOSS_SCHEMA = pa.schema(_GLOSS_COLUMNS)


def read_wordnet(progress: Progress) -> tuple[list[str], pa.Table]:
    """All glosses, and a table with word, pos, lex_file, n_words, n_pointers and gloss."""
    folder = unpacked_folder(WORDNET, progress) / "usr" / "share" / "wordnet"
    progress(0, 0, "reading WordNet")
    rows = [row for pos in ("noun", "verb", "adj", "adv") for row in _synsets(folder, pos)]
    return [row["gloss"] for row in rows], pa.Table.from_pylist(rows, schema=_GLOSS_SCHEMA)


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


GCIDE = Package(
    Client.APT,
    "dict-gcide",
    "0.48.5+nmu2",
    "7b0af5cfde3cbdef5e9d6e78f92ec335ced7c2790f37a40f49bebc6f7347ac0f",
    14.8,
)
_DIGITS = {
    digit: value
    for value, digit in enumerate(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    )
}
_SENSE = re.compile(r"^ {2,6}(?:\d+\.|\([a-z]\)) ", re.MULTILINE)
#: What follows a sense's text: its source, a blank line, synonyms, the author of a quotation.
_END = re.compile(r"\[[^\[\]]*(?:Webster|PJC|WordNet)[^\[\]]*\]|\n\s*\n|\n\s+Syn:|--[A-Z]")
_ETYMOLOGY = re.compile(r"\[[^\[\]]*\]")
#: A headword with its pronunciation, twice at times, and its parts of speech.
_HEADWORD = re.compile(r"^[^\\]*\\[^\\]*\\[\s,]*(?:\([^)]*\),\s*)?(?:[a-z]{1,5}\.[\s,&;]*)*")
_FEWEST_CHARACTERS = 10


def read_gcide(progress: Progress) -> list[tuple[str, str]]:
    """Headword and text of every sense, in the order of the index.

    Raises:
        SourceUnavailable, DataError: see `vectrial.util.packages.unpacked_folder`; or a damaged
            index.
    """
    folder = unpacked_folder(GCIDE, progress) / "usr" / "share" / "dictd"
    progress(0, 0, "reading GCIDE")
    content = gzip.decompress((folder / "gcide.dict.dz").read_bytes())
    return [
        (word, text)
        for word, start, length in _index(folder / "gcide.index")
        for text in senses(content[start : start + length].decode("utf-8", errors="replace"))
    ]


def _index(path: Path) -> Iterator[tuple[str, int, int]]:
    """Headword, offset and length of every entry, each entry once."""
    seen: set[str] = set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            word, start, length = line.split("\t")
            if start not in seen and not word.startswith("00-database"):
                yield word, base64_number(start), base64_number(length)
            seen.add(start)
        except (ValueError, KeyError) as error:
            raise DataError(f"not a line of an index: {error}", where=f"{path}:{number}") from error


def base64_number(digits: str) -> int:
    """A number of a dictd index, most significant digit first.

    Raises:
        KeyError: not a digit of base 64.
    """
    value = 0
    for digit in digits:
        value = 64 * value + _DIGITS[digit]
    return value


def senses(entry: str) -> Iterator[str]:
    """The texts of an entry's senses on one line each, without headword, etymology, source and
    quotations; those too short to say anything are left out."""
    head, *numbered = _SENSE.split(entry)
    for sense in numbered or [_HEADWORD.sub("", _ETYMOLOGY.sub("", head), count=1)]:
        text = _END.split(sense, maxsplit=1)[0]
        text = " ".join(text.replace("{", "").replace("}", "").split())
        if len(text) >= _FEWEST_CHARACTERS:
            yield text


EDICT = Package(
    Client.APT,
    "edict",
    "2021.02.03-1",
    "f1d50611cd5486d30a4bdd56447bcfa1ee5084da7909340f5da3e1abc0b97b3b",
    4.2,
)
#: Parts of speech and the like (n, v5r, adj-na), and numbers of senses, before a gloss.
_MARKS = re.compile(r"^(?:\([a-z0-9,:\-]+\)\s*)+")
_COMMON = "(P)"


def read_edict(progress: Progress) -> list[tuple[str, str]]:
    """Japanese word and English text of every entry, in the order of the file.

    Raises:
        SourceUnavailable, DataError: see `vectrial.util.packages.unpacked_folder`; or another
            encoding.
    """
    path = unpacked_folder(EDICT, progress) / "usr" / "share" / "edict" / "edict"
    progress(0, 0, "reading EDICT")
    try:
        lines = path.read_text(encoding="euc_jp").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"not EUC-JP: {error}", where=str(path)) from error
    return [found for line in lines[1:] if (found := parse_line(line))[1]]  # the first is a title


def parse_line(line: str) -> tuple[str, str]:
    """Japanese word, and the glosses of all senses joined by "; ", without marks; empty if there
    are none."""
    head, *parts = line.split("/")
    glosses = [_MARKS.sub("", part).strip() for part in parts if part.strip() != _COMMON]
    return head.split(" ")[0], "; ".join(filter(None, glosses))
