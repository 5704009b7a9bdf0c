"""Certificates that a process trusts, for client libraries that have no setting for them."""

from __future__ import annotations

import os
from pathlib import Path


def trust(ca: Path | None) -> None:
    """Make HTTP and gRPC clients created in this process from now on trust the certificates in a
    PEM file. Do nothing if `ca` is None.

    The clients read environment variables. A process connects to one server only, so no other
    connection is affected.
    """
    if ca is not None:
        os.environ["SSL_CERT_FILE"] = os.environ["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] = str(ca)
