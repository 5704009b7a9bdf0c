"""The commands `vectrial serve` and `vectrial site`."""
