"""The migrations, one in each file, numbered in order."""
