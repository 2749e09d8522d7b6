"""The commands about versions of every kind, and about the stores and files in which versions travel.

The main names:

- `artefacts.list_command` and its siblings: `refaug artefacts list|show|publish|rollback|gc|remove|verify`
- `stores.export_command`, `stores.import_command`: one version as one file
- `stores.push_command`, `stores.fetch_command`: a store that several machines share.
"""
