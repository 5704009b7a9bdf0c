"""Published reports on vector databases, measured again: `vectrial reproduce`."""
