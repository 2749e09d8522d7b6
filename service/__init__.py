"""The command line and, on the same functions, the service."""
