"""Runs of replies that conversations share with each other and with a log, counted in bounded memory.

The main names:

- `shared_windows.SharedWindows`: pairs of conversations that share a window
- `log_windows.count_in_log`: conversations that have a window of a log
- `log_windows.LogHashes`: the hashes of a log's texts, in a file.
"""

__all__ = ["log_windows", "shared_windows"]
