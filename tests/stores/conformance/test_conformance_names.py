from vectrial.testing.conformance.test_names import *  # noqa: F403
