"""Who runs a server."""

from __future__ import annotations

from enum import StrEnum


class Provider(StrEnum):
    """Where a server comes from."""

    EXTERNAL = "external"  # it runs already, at the address that the environment gives
    LOCAL = "local"  # a program of this machine
    DOCKER = "docker"  # the official image
