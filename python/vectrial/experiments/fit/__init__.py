"""A store loaded and searched under limits of memory and processor time."""
