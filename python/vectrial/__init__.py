"""Vectrial puts vector databases on trial."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("vectrial")
except PackageNotFoundError:  # imported from a source tree by a store's own environment
    __version__ = "0+source"
