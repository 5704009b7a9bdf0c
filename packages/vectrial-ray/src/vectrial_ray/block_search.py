"""One machine's part of a search for exact neighbours."""

from __future__ import annotations

import threading

from vectrial.datasets.exact import ExactSearch, Hits, RowBlock, SearchedRows, scan


class BlockSearch:
    """A search over some blocks of the rows. rows: all rows, or None if they come with each
    block."""

    def __init__(self, question: ExactSearch, rows: SearchedRows | None) -> None:
        self._search, self._rows = question.search(), rows
        self._one_at_a_time = threading.Lock()

    def scan(self, block: RowBlock, rows: SearchedRows | None) -> None:
        """Search a block. rows: the block's rows, if this machine does not have them all.

        Raises:
            DataError: see `vectrial.datasets.exact.scan`.
        """
        if rows is None:
            assert self._rows is not None, "rows are here or come with the block"
            rows = self._rows.part(block.which)
        with self._one_at_a_time:
            scan(self._search, rows, block.allowed)

    def hits(self) -> Hits:
        """The hits in the blocks seen so far."""
        with self._one_at_a_time:
            return Hits(*self._search.hits())
