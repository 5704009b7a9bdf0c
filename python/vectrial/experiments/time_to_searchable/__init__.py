"""How much of what was acknowledged a search finds, while loading and afterwards."""
