"""The ground of the client: errors, frames and progress reports.

The main names:

- `errors.RefaugError`: every error of the client
- `frames.make_frame`: rows as a frame of pandas or polars
- `progress.make_reporter`: shows progress.
"""
