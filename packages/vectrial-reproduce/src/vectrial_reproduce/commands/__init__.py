"""The command `vectrial reproduce`."""
