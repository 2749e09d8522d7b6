"""Reading dialogue logs: finding and opening sources, recognising their format, and turning rows into turns.

The main names:

- `sources.find_files`: the files that a pattern names
- `formats.detect`: the format of a source
- `shapes.Fields`: which column holds which field.
"""
