"""The version of this package."""

from __future__ import annotations


def version() -> str:
    """Version by the metadata; "0+source" if a store's own environment imports the source tree."""
    from importlib import metadata

    try:
        return metadata.version("vectrial")
    except metadata.PackageNotFoundError:
        return "0+source"
