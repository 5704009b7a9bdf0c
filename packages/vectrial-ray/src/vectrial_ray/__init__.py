"""Runs on the machines of a Ray cluster: `vectrial run --on ray`."""
