"""The command line, as a person would use it."""

from __future__ import annotations

from run_fixtures import in_process, inside, variables, vectrial

__all__ = ["in_process", "inside", "variables", "vectrial"]
