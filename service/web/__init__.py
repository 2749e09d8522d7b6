"""The HTTP interface: routes read a request, call the same functions as the command line, and return JSON."""
