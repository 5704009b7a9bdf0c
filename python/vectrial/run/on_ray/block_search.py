"""One machine's part of a search for exact neighbours."""

from __future__ import annotations

import threading

from vectrial.datasets.exact import ExactSearch, Hits, RowBlock, SearchedRows, scan


class BlockSearch:
    """A search that sees some blocks of the rows. rows: all of them, or None where they come with
    each block."""

    def __init__(self, question: ExactSearch, rows: SearchedRows | None) -> None:
        self._search, self._rows = question.search(), rows
        self._one_at_a_time = threading.Lock()

    def scan(self, block: RowBlock, rows: SearchedRows | None) -> None:
        """Look at a block. rows: those of the block alone, where this machine has none.

        Raises:
            DataError: as `vectrial.datasets.exact.scan`.
        """
        if rows is None:
            assert self._rows is not None, "rows are here or come with the block"
            rows = self._rows.part(block.which)
        with self._one_at_a_time:
            scan(self._search, rows, block.allowed)

    def hits(self) -> Hits:
        """What was found in the blocks seen until now."""
        with self._one_at_a_time:
            return Hits(*self._search.hits())
