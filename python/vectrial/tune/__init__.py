"""Finding index and search parameters within a budget of builds."""
