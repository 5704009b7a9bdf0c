"""Providers of servers."""

from __future__ import annotations

from enum import StrEnum


class Provider(StrEnum):
    """Source of a server."""

    EXTERNAL = "external"  # it runs already, at the address that the environment gives
    LOCAL = "local"  # a program of this machine
    DOCKER = "docker"  # the official image
