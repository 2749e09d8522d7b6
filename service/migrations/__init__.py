"""The tables, and the steps that lead to them from what an older version left.

`tables.py` says how things are now. Each file in `versions/` is one step, run once on every database, and never changed
after it was released; a test holds the sum of all steps to `tables.py`. Steps are run by `service.database`, in one
transaction: a step that fails leaves the database as it was. To add one: change `tables.py`, and write the next number
in `versions/` with the one before as its `down_revision`.
"""
