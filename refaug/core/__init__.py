"""The ground that every room stands on: errors, files, records, the home, text, artefacts, vectors.

The main names:

- `home.Settings`: where everything lies
- `errors.RefaugError`: every error that a user sees, with its remedy
- `files`: writing files whole or not at all, and locks.
"""
