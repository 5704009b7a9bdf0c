"""Keeping secrets out of what a run writes: what a library says when it fails may hold a password,
or a URL with one."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from vectrial.results.writer import TrialRecord
from vectrial.servers.provide import recipe_of, secrets_of
from vectrial.stores.base import Store

HIDDEN = "[secret]"
#: Names are no secrets, and are words that may stand anywhere.
_OPEN = frozenset({"user", "database"})


class Secrecy:
    """Hides values wherever they stand, also as they are in a URL or in a header.

    Args:
        secrets: of each server, by name.
    """

    def __init__(self, secrets: Iterable[dict[str, str]]) -> None:
        words: set[str] = set()
        for one in secrets:
            for name, value in one.items():
                if name in _OPEN or not value:
                    continue
                words |= {value, quote(value), quote(value, safe="")}
                # As in the headers of a password and of a token.
                words |= {_base64(f"{one.get('user', '')}:{value}"), _base64(value)}
        # The longest first, so that no rest of one is left over.
        self._words = sorted(words, key=len, reverse=True)

    @classmethod
    def of(cls, stores: Iterable[type[Store]]) -> Secrecy:
        """Of what the environment gives for the servers of these stores.

        Raises:
            UserError: a secret's file cannot be read.
        """
        recipes = [recipe for store in stores if (recipe := recipe_of(store)) is not None]
        return cls(secrets_of(recipe) for recipe in recipes)

    def text(self, said: str) -> str:
        """`said` without them."""
        for word in self._words:
            said = said.replace(word, HIDDEN)
        return said

    def record(self, record: TrialRecord) -> TrialRecord:
        """A trial without them, wherever words of others stand in it."""
        if not self._words:
            return record
        phases = [
            replace(
                phase,
                reason=None if phase.reason is None else self.text(phase.reason),
                missing={name: self.text(why) for name, why in phase.missing.items()},
                errors=[(kind, n, [self.text(m) for m in said]) for kind, n, said in phase.errors],
            )
            for phase in record.phases
        ]
        return replace(
            record,
            reason=None if record.reason is None else self.text(record.reason),
            notes=[self.text(note) for note in record.notes],
            phases=phases,
            gate=[row._replace(detail=self.text(row.detail)) for row in record.gate],
        )

    def file(self, path: Path) -> None:
        """Take them out of a log that nobody writes any more."""
        if not self._words or not path.is_file():
            return
        said = path.read_text(errors="surrogateescape")
        clean = self.text(said)
        if clean != said:
            path.write_text(clean, errors="surrogateescape")


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
