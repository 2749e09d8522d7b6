"""What is particular to the kinds of artefacts whose rooms know no home: their facts, what is shown, their rules.

The main names:

- `stored_indexes.StoredIndexes`: indexes
- `stored_vectors.StoredWordVectors`: word vectors
- `stored_networks.StoredRaters`: raters, and beside it rubers and VHREDs.
"""

__all__ = ["stored_indexes", "stored_networks", "stored_vectors"]
