"""Inputs too large for one request: batches, the threads and tasks that send them, and the merged answer."""
