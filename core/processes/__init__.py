"""Processes: files that show which ones are alive, and worker processes.

The main names:

- `live_file.LiveFile`: a file that its process holds locked while it is alive
- `worker_processes.Workers`: work shared out to several processes.
"""
