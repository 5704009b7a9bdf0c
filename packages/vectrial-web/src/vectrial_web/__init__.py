"""Pages of runs: `vectrial serve` shows them live, `vectrial site` writes them as files."""
