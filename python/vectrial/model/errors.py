"""The errors a person can meet, the exit code each one ends the program with, and text of others
made fit for a message: one line, no control characters, not too long."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

#: Characters of a value that a message repeats.
_SHOWN = 80


class VectrialError(Exception):
    """Base of the errors that Vectrial raises on purpose. Ends the program with exit code 1."""

    exit_code = 1


class UserError(VectrialError):
    """Input that cannot be used: what is wrong, where, and how to mend it. Exit code 2.

    Args:
        what: the fault in one sentence ("'metrc' is not a field of a dataset").
        where: file, line, key or row it was found at; empty when there is no place to name.
        remedy: what to do about it ("did you mean 'metric'?"); empty when nothing is known.
    """

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = what, where, remedy
        super().__init__(": ".join(part for part in (where, what) if part))

    def __str__(self) -> str:
        message = f"{self.where}: {self.what}" if self.where else self.what
        # What the user gave, or a library said of it, may end lines or steer the terminal.
        return printable(f"{message} ({self.remedy})" if self.remedy else message)


class DataError(UserError):
    """A data file, archive or download that cannot be trusted."""


class Unsupported(UserError):
    """Something a store does not offer. Raised when the plan is made, never while measuring."""


class NotInstalled(VectrialError):
    """A store's library is missing; the message names the command that installs it."""


class StoreError(VectrialError):
    """A failure of a store. Its trial fails and is recorded with the reason; the run goes on."""


class PluginError(UserError):
    """A plug-in that cannot be used; `where` names its package and entry point."""


class PartialFailure(StoreError):
    """A write of which some rows were refused.

    Args:
        reason: what the store said.
        failed_ids: the ids that were not written.
    """

    def __init__(self, reason: str, failed_ids: Sequence[int]) -> None:
        self.failed_ids = tuple(failed_ids)
        shown = ", ".join(map(str, self.failed_ids[:5]))
        more = ", …" if len(self.failed_ids) > 5 else ""
        super().__init__(f"{len(self.failed_ids)} rows were not written ({shown}{more}): {reason}")


class SourceUnavailable(DataError):
    """The source of a dataset does not answer, lacks the dataset, or has no client here."""


def control_character(text: str) -> str | None:
    """The first character that ends lines, steers terminals or is not text; None if none."""
    return next((one for one in text if _is_control(one)), None)


def _is_control(one: str) -> bool:
    return unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") or one in "\ufffe\uffff"


def printable(text: str) -> str:
    """`text` in one line, with every control character escaped."""
    line = " ".join(text.splitlines())
    if line.isprintable():
        return line
    return "".join(one if not _is_control(one) else f"\\x{ord(one):02x}" for one in line)


def shown(value: object) -> str:
    """The beginning of `value` in one line, for use in a message."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
