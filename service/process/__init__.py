"""Processes of a server: the supervisor, liveness, logging and Prometheus figures."""
