"""Errors caused by runs from elsewhere, whose values may not be as the program expects."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from vectrial.model.errors import UserError
from vectrial.results.clean import clean_name

#: Environment variable: if set, such an error ends the program with its traceback.
TRACEBACK = "VECTRIAL_TRACEBACK"
#: Exceptions raised when a value that no run of Vectrial's has is used.
FAULTS = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError,
          ValueError)  # fmt: skip


def foreign_value_error(error: Exception, where: str) -> UserError:
    """One-line error for a value that no run has."""
    return UserError(
        f"it holds what no run of Vectrial's does: {type(error).__name__}: {_line(error)}",
        where=where,
        remedy=f"if Vectrial measured it, this is a fault of Vectrial's: {TRACEBACK}=1 shows where",
    )


@contextmanager
def foreign_value_errors(where: object) -> Iterator[None]:
    """Convert errors in the block, which uses a run from any source, into a `UserError`.

    where: the run.

    Raises:
        UserError: the run has a value that no run of Vectrial's has.
    """
    try:
        yield
    except FAULTS as error:
        if os.environ.get(TRACEBACK):
            raise
        raise foreign_value_error(error, str(where)) from error


def _line(error: Exception) -> str:
    return clean_name(str(error).strip().partition("\n")[0][:200])
