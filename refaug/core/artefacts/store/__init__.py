"""A store that several machines share: versions of artefacts in a local folder, in S3, or wherever pyarrow can write.

The main names:

- `locations.open_store`: the files of the store that the settings name
- `objects.Store`: files under their hashes, and the records of versions
- `pushing.push_version`: a version into the store; `fetching.fetch_version` brings it back.
"""
