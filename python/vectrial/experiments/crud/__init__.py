"""Single operations, one at a time, each effect verified outside the clock."""
