"""Items of a test file that are gone through several times, however many they are.

The main names:

- `item_collection.ItemCollection`: items that are in memory where they are few, and else in a file
- `item_facts.ItemFacts`: what one pass over all items tells of them
- `item_spool.SpooledItems`: the items in a file, as a sequence.
"""

__all__ = [
    "blocks",
    "item_collection",
    "item_digests",
    "item_evidence",
    "item_facts",
    "item_spool",
    "passing_list",
]
