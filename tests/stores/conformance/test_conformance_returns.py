from vectrial.testing.conformance.test_returns import *  # noqa: F403
