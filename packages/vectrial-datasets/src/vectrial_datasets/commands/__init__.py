"""The command `vectrial data pictures`."""
