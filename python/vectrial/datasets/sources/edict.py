"""EDICT, the Japanese-English dictionary made of JMdict: the English text of every entry.

Format: a line `word [reading] /(part of speech) (1) gloss/gloss/(2) gloss/`, in EUC-JP.
"""

from __future__ import annotations

import re

from vectrial.model.errors import DataError
from vectrial.model.progress import Progress
from vectrial.util.packages import Client, Package, unpacked

PACKAGE = Package(
    Client.APT,
    "edict",
    "2021.02.03-1",
    "f1d50611cd5486d30a4bdd56447bcfa1ee5084da7909340f5da3e1abc0b97b3b",
    4.2,
)
#: Parts of speech and the like (n, v5r, adj-na), and numbers of senses, before a gloss.
_MARKS = re.compile(r"^(?:\([a-z0-9,:\-]+\)\s*)+")
_COMMON = "(P)"


def read(progress: Progress) -> list[tuple[str, str]]:
    """Japanese word and English text of every entry, in the order of the file.

    Raises:
        SourceUnavailable, DataError: see `vectrial.util.packages.unpacked`; or another encoding.
    """
    path = unpacked(PACKAGE, progress) / "usr" / "share" / "edict" / "edict"
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
