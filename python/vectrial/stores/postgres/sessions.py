"""Connections to PostgreSQL: one for each thread and each set of search settings.

Search parameters such as `hnsw.ef_search` are settings of a connection. With one connection for
each value, concurrent searches with different values do not affect each other, and the search
itself costs no more.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from vectrial.model.errors import UserError
from vectrial.model.store import Address

_Key = tuple[int, tuple[tuple[str, str], ...]]
#: The schema of the extension, and whether names are looked for in it.
_EXTENSION = """\
SELECT quote_ident(nspname), nspname = ANY (current_schemas(true)) FROM pg_extension
JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector'"""


class Sessions:
    """The connections of one store. The first creates the extension if it is missing.

    search_path: path of every connection, if the extension is outside the role's own path.
    """

    def __init__(self, address: Address) -> None:
        self.search_path: str | None = None
        self._address = address
        self._open: dict[_Key, Any] = {}
        self._lock = threading.Lock()
        from psycopg.errors import DuplicateObject, UniqueViolation

        self._taken = (DuplicateObject, UniqueViolation)
        self.main = self._connect({})

    def connection(self, settings: Mapping[str, str]) -> Any:
        """The calling thread's connection with these settings."""
        key = (threading.get_ident(), tuple(settings.items()))
        found = self._open.get(key)
        if found is None:
            found = self._connect(settings)
            with self._lock:
                self._open[key] = found
        return found

    def close(self) -> None:
        """Close all connections. Calling it twice is harmless."""
        with self._lock:
            for one in (self.main, *self._open.values()):
                one.close()
            self._open.clear()

    def _connect(self, settings: Mapping[str, str]) -> Any:
        """A new connection.

        Raises:
            UserError: the connection is read-only, and the database lacks the vector extension.
        """
        from pgvector.psycopg import register_vector
        from psycopg import RawCursor

        from vectrial.stores.postgres.server import connect

        found = connect(self._address)
        found.cursor_factory = RawCursor  # SQL as the server reads it, parameters as $1
        if self._address.read_only:
            found.execute("SET default_transaction_read_only = on")
        known = found.execute(_EXTENSION).fetchone()
        if known is None:
            if self._address.read_only:
                found.close()
                raise UserError("the database has no extension 'vector', so no vectors to search")
            with suppress(*self._taken):  # by another connection at the same moment
                found.execute("CREATE EXTENSION IF NOT EXISTS vector")
        elif not known[1]:  # its types are in a schema that is not looked into
            path = found.execute("SHOW search_path").fetchone()[0]
            self.search_path = f"{path}, {known[0]}"
            found.execute("SELECT set_config('search_path', $1, false)", (self.search_path,))
        register_vector(found)
        # An extension knows its settings once it is loaded; before, any value would do.
        found.execute("SELECT '[1]'::vector")
        for name, value in settings.items():
            found.execute("SELECT set_config($1, $2, false)", (name, value))
        return found


def has_replayed(node: Address, position: str) -> bool:
    """True if a standby shows all that was written up to a position of the log."""
    from vectrial.stores.postgres.server import connect

    with connect(node) as connection:
        reached = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        return bool(connection.execute(reached, (position,)).fetchone()[0])
