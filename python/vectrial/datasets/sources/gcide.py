"""GCIDE, the Collaborative International Dictionary of English: the text of every sense.

Format: dictd(8). An index line has a headword, and offset and length of its entry in base 64; the
entries are one gzip file. Within an entry, senses are numbered, and each ends with its source in
brackets.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

from vectrial.model.errors import DataError
from vectrial.model.progress import Progress
from vectrial.util.packages import Client, Package, unpacked

PACKAGE = Package(
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


def read(progress: Progress) -> list[tuple[str, str]]:
    """Headword and text of every sense, in the order of the index.

    Raises:
        SourceUnavailable, DataError: see `vectrial.util.packages.unpacked`; or a damaged index.
    """
    folder = unpacked(PACKAGE, progress) / "usr" / "share" / "dictd"
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
