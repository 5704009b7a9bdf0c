from vectrial.testing.conformance.test_parameters import *  # noqa: F403
