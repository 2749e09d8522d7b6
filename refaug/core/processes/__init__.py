"""Processes: files that show which ones are alive, worker processes, and where Python looks for modules.

The main names:

- `live_file.LiveFile`: a file that its process holds locked while it is alive
- `worker_processes.Workers`: work shared out to several processes
- `worker_processes.default_count`: how many processes suit the machine.
"""
