"""Sending calls over HTTP: settings, connections for threads and for asyncio, retries.

The main names:

- `connection.Connection`: sends calls of threads
- `async_connection.AsyncConnection`: sends calls of asyncio
- `settings.Retry`: how often a request is tried, and how long the client waits in between.
"""
