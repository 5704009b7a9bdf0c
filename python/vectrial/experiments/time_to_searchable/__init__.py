"""Share of the acknowledged rows that a search finds, while loading and afterwards."""
