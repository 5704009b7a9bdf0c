from vectrial.testing.conformance.test_innocence import *  # noqa: F403
