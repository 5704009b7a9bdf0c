from vectrial.testing.conformance.test_many import *  # noqa: F403
