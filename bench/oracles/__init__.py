"""Answers found by other means than Vectrial's: nothing here imports it."""
