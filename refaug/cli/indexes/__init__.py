"""Commands on word vectors and indexes.

The main names:

- `index.build_command`: `refaug index build`
- `index_search.search_command`: `refaug index search`
- `vectors.train_command`: `refaug train vectors`.
"""
