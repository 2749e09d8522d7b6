"""The HTTP service, its jobs and its processes, on the functions of the command line.

The main names:

- `web.app.create_app`: the application over a home
- `process.server.serve`: starts the processes of a server
- `jobs.worker.run_worker`: runs jobs from the queue.
"""
