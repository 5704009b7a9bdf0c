"""The command `vectrial ray check`."""
