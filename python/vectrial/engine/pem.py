"""Certificates and keys out of PEM files."""

from __future__ import annotations

import base64
import binascii
import re
from pathlib import Path

from vectrial.model.errors import UserError


def der(path: Path, label: str) -> list[bytes]:
    """Content of a PEM file under a label ("CERTIFICATE", "PRIVATE KEY"), decoded.

    Raises:
        UserError: the file cannot be read or holds nothing of the kind.
    """
    block = rf"-----BEGIN {label}-----(.*?)-----END {label}-----"
    try:
        found = re.findall(block, path.read_text(), re.DOTALL)
        decoded = [base64.b64decode(body) for body in found]
    except (OSError, UnicodeDecodeError, binascii.Error) as error:
        raise UserError(f"{path} cannot be read as PEM: {error}") from error
    if not decoded:
        raise UserError(f"{path}: there is no {label.lower()} in it")
    return decoded
