"""Certificates that a process trusts, for client libraries that have no setting for them."""

from __future__ import annotations

import os
from pathlib import Path


def trust(ca: Path | None) -> None:
    """Have clients of HTTP and gRPC that are made in this process from now on trust the
    certificates in a PEM file; nothing without one.

    They read variables of the environment. A process connects to one server, so that no other
    connection is concerned.
    """
    if ca is not None:
        os.environ["SSL_CERT_FILE"] = os.environ["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] = str(ca)
