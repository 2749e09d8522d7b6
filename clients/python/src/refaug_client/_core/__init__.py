"""The ground of the client: errors, files, frames and progress reports.

The main names:

- `errors.RefaugError`: every error of the client
- `files.write_atomically`: a file, whole or not at all
- `progress.make_reporter`: shows progress.
"""

__all__ = ["errors", "files", "frames", "progress"]
