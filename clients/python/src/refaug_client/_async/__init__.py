"""The asyncio client; unasync.py generates `_sync` from the modules here."""
