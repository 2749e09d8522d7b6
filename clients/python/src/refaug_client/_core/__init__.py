"""What every part of the client uses: the errors, files, frames and progress reports."""
