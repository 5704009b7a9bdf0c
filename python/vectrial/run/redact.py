"""Keeping secrets out of what a run writes: what a library says when it fails may hold a password,
or a URL with one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from vectrial.model.store import Store
from vectrial.results.clean import clean
from vectrial.results.writer import TrialRecord
from vectrial.servers.provide import recipe_of, secrets_of
from vectrial.util.redaction import HIDDEN, LEAST, Redaction, environment_secrets, is_short

__all__ = ["HIDDEN", "Secrecy", "short_secrets"]


class Secrecy(Redaction):
    """Hides secrets in what is recorded of trials, which is made clean text besides."""

    @classmethod
    def of(cls, stores: Iterable[type[Store]]) -> Secrecy:
        """Of what the environment gives, for the servers of these stores and for any others.

        Raises:
            UserError: a secret's file cannot be read.
        """
        recipes = [recipe for store in stores if (recipe := recipe_of(store)) is not None]
        return cls([*map(secrets_of, recipes), *environment_secrets().values()])

    def said(self, text: str) -> str:
        """A text of somebody else's as it is recorded and shown."""
        return clean(self.text(text))

    def record(self, record: TrialRecord) -> TrialRecord:
        """A trial without them, wherever words of others stand in it."""
        phases = [
            replace(
                phase,
                reason=None if phase.reason is None else self.said(phase.reason),
                missing={name: self.said(why) for name, why in phase.missing.items()},
                errors=[
                    (self.said(kind), n, [self.said(m) for m in said])
                    for kind, n, said in phase.errors
                ],
            )
            for phase in record.phases
        ]
        return replace(
            record,
            reason=None if record.reason is None else self.said(record.reason),
            notes=[self.said(note) for note in record.notes],
            phases=phases,
            gate=[row._replace(detail=self.said(row.detail)) for row in record.gate],
            server=None if record.server is None else self.within(record.server),
        )


def short_secrets() -> Iterator[str]:
    """What is said of each secret of the environment that is too short to be hidden reliably."""
    for name, secrets in environment_secrets().items():
        for secret in filter(is_short, secrets.values()):
            yield (
                f"{name}: a secret of {len(secret)} characters cannot be told from other text: it"
                f" is hidden after words like 'password', in URLs and in quotes alone; {LEAST}"
                " characters or more are hidden anywhere"
            )
