from vectrial.testing.conformance.test_reads import *  # noqa: F403
