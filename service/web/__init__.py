"""The service over HTTP: reads a request, asks the functions that the command line asks, wraps the answer."""
