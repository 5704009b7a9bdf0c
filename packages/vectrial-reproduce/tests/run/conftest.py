"""The command line, as a person would use it."""

from __future__ import annotations

from run_fixtures import inside, variables, vectrial

__all__ = ["inside", "variables", "vectrial"]
