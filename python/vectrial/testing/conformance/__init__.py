"""The conformance suite: the requirements on every store, whoever wrote it.

`vectrial conformance STORE` runs it. It is a suite of pytest: `plugin` holds the fixtures and says
which stores it runs on, `world` the rows and the filters, `test_*.py` the checks. A check of what a
store does not declare is skipped.

Imports only what a store's own environment has: numpy, pyarrow, pytest and vectrial.
"""
