from vectrial.testing.conformance.test_hybrid import *  # noqa: F403
