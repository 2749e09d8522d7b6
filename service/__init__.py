"""The command line, and the HTTP service on the same functions."""
