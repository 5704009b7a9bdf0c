"""What somebody else's run may make of a program that expects one of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from vectrial.model.errors import UserError
from vectrial.results.clean import clean_name

#: The variable that, where it is set, lets a fault end the program with its traceback.
TRACEBACK = "VECTRIAL_TRACEBACK"
#: How a value that no run of ours holds shows itself, wherever it is used.
FAULTS = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError,
          ValueError)  # fmt: skip


def fault(error: Exception, where: str) -> UserError:
    """What is said of such a value, on one line."""
    return UserError(
        f"it holds what no run of Vectrial's does: {type(error).__name__}: {_line(error)}",
        where=where,
        remedy=f"if Vectrial measured it, this is a fault of Vectrial's: {TRACEBACK}=1 shows where",
    )


@contextmanager
def understood(where: object) -> Iterator[None]:
    """What is read inside was perhaps not written by us.

    where: the run.

    Raises:
        UserError: it holds what no run does.
    """
    try:
        yield
    except FAULTS as error:
        if os.environ.get(TRACEBACK):
            raise
        raise fault(error, str(where)) from error


def _line(error: Exception) -> str:
    return clean_name(str(error).strip().partition("\n")[0][:200])
