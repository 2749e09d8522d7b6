"""The steps, one a file, in the order of their numbers."""
