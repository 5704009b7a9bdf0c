from vectrial.testing.conformance.test_writes import *  # noqa: F403
