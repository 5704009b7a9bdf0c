"""Removal of secrets from the output of a run: an error message of a library may contain a
password, or a URL with one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from vectrial.model.errors import UserError
from vectrial.model.store import Store
from vectrial.results.clean import clean
from vectrial.results.writer import TrialRecord
from vectrial.servers.provide import recipe_of, secrets_of
from vectrial.util.redaction import HIDDEN, LEAST, Redaction, environment_secrets, is_short
from vectrial.util.variants import configured_variants, set_variables

__all__ = ["HIDDEN", "Secrecy", "short_secrets"]


class Secrecy(Redaction):
    """Removes secrets and control characters from records of trials."""

    @classmethod
    def for_stores(cls, stores: Iterable[type[Store]]) -> Secrecy:
        """The secrets of the environment, for the servers of these stores and for others.

        Raises:
            UserError: a secret's file cannot be read.
        """
        recipes = [recipe for store in stores if (recipe := recipe_of(store)) is not None]
        found = [*map(secrets_of, recipes), *environment_secrets().values()]
        for variant in configured_variants():  # some may be of no variant that is measured
            with set_variables(variant), suppress(UserError):
                found += map(secrets_of, recipes)
        return cls(found)

    def clean_text(self, text: str) -> str:
        """A foreign text, cleaned for recording and display."""
        return clean(self.text(text))

    def record(self, record: TrialRecord) -> TrialRecord:
        """A trial's record without secrets in any foreign text."""
        phases = [
            replace(
                phase,
                reason=None if phase.reason is None else self.clean_text(phase.reason),
                missing={name: self.clean_text(why) for name, why in phase.missing.items()},
                errors=[
                    (self.clean_text(kind), n, [self.clean_text(text) for text in messages])
                    for kind, n, messages in phase.errors
                ],
            )
            for phase in record.phases
        ]
        return replace(
            record,
            reason=None if record.reason is None else self.clean_text(record.reason),
            notes=[self.clean_text(note) for note in record.notes],
            phases=phases,
            gate=[row._replace(detail=self.clean_text(row.detail)) for row in record.gate],
            server=None if record.server is None else self.redact_value(record.server),
        )


def short_secrets() -> Iterator[str]:
    """Warnings about secrets in the environment that are too short to be removed reliably."""
    for name, secrets in environment_secrets().items():
        for secret in filter(is_short, secrets.values()):
            yield (
                f"{name}: a secret of {len(secret)} characters cannot be told from other text: it"
                f" is hidden after words like 'password' and in URLs alone; {LEAST} characters or"
                " more are hidden anywhere"
            )
