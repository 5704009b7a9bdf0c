"""What the scripts beside this one share: their input, and their last line.

Each script runs in an environment of its own, with one argument: a folder that has `rows.npy`
(n, d) and `queries.npy` (q, d), float32, and `server.json`, the address of the server.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

#: Rows that an application's search asks for.
K = 10


@dataclass(frozen=True)
class Given:
    """rows (n, d), queries (q, d): float32. ports, secrets: of the server, by name."""

    rows: Any
    queries: Any
    host: str
    ports: dict[str, int]
    secrets: dict[str, str]

    @property
    def dim(self) -> int:
        """Components of a vector."""
        return int(self.rows.shape[1])

    @property
    def texts(self) -> list[str]:
        """Texts of the rows; `vector` has their embeddings."""
        return [f"row {at}" for at in range(len(self.rows))]

    @property
    def metadatas(self) -> list[dict[str, int]]:
        """Metadata of the rows."""
        return [{"n": at % 7} for at in range(len(self.rows))]

    @property
    def questions(self) -> list[str]:
        """Texts of the queries; `vector` has their embeddings."""
        return [f"query {at}" for at in range(len(self.queries))]

    def vector(self, text: str) -> list[float]:
        """The embedding of a text of a row or of a query."""
        kind, _, number = text.partition(" ")
        vectors = {"row": self.rows, "query": self.queries}[kind]
        return [float(one) for one in vectors[int(number)]]


def given() -> Given:
    """The input of this script."""
    folder = Path(sys.argv[1])
    server = json.loads((folder / "server.json").read_text())
    return Given(np.load(folder / "rows.npy"), np.load(folder / "queries.npy"), **server)


def row_of(text: str) -> int:
    """The number of the row that has this text."""
    return int(text.removeprefix("row "))


def finish(
    package: str, collection: str, answers: list[list[int]], options: dict[str, Any] | None = None
) -> None:
    """Print the last line. package: the framework's. answers: row numbers for each query.
    options: what a user adds to `--existing`, by the names of its options."""
    said = {
        "collection": collection,
        "options": options or {},
        "answers": answers,
        "version": f"{package} {version(package)}",
    }
    print(json.dumps(said))
