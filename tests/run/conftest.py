"""A small real suite, run through the command line as a person would."""

from __future__ import annotations

from run_fixtures import in_process, inside, recorded, suite, variables, vectrial

__all__ = ["in_process", "inside", "recorded", "suite", "variables", "vectrial"]
