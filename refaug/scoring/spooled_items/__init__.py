"""Items of a test file that are gone through several times, however many they are.

The main names:

- `item_collection.ItemCollection`: items that are in memory where they are few, and else in a file; what all of them
  tell
- `item_collection.SpooledItems`: the items in a file, as a sequence
- `item_collection.PassingList`: a list of their scores as JSON, made anew at every pass.
"""
