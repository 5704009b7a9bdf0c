"""The file of prices of an option."""

from __future__ import annotations

import tomllib
from pathlib import Path

from vectrial.model.errors import UserError
from vectrial.model.inputs import read_bytes
from vectrial.suite.model import Prices
from vectrial.suite.validation import validate

#: Bytes of a file of prices.
_PRICES_BYTES = 1 << 20


def read_prices(file: Path) -> Prices:
    """The prices in a TOML file, with the keys of a suite's `[prices]` or with that table itself.

    Raises:
        UserError: it cannot be read, or a key is unknown, missing or of the wrong kind.
    """
    try:
        plain = tomllib.loads(read_bytes(file, _PRICES_BYTES).decode("utf-8"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"the prices cannot be read: {why}", where=str(file)) from error
    return validate(Prices, plain.get("prices", plain), str(file))
