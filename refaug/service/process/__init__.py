"""Processes of a server: the supervisor, liveness, logging, and the checks before a start.

The main names:

- `server.serve`: starts a server and waits for its end
- `server.Supervisor`: starts dead or silent processes again
- `live_processes.LiveProcesses`: which processes serve which versions.
"""
