from vectrial.testing.conformance.test_wire import *  # noqa: F403
