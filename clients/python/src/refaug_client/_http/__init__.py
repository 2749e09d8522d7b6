"""Sending calls over HTTP: settings, connections for threads and for asyncio, retries."""
