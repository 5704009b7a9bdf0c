from vectrial.testing.conformance.test_limits import *  # noqa: F403
