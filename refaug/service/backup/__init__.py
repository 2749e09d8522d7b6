"""A whole home as one folder, written while it is served, checked by hash, and restored anywhere.

The main names:

- `backing_up.back_up`: writes a backup of a home and its database
- `restoring.restore`: makes a home from a backup
- `backup_files.BackupManifest`: what a backup holds.
"""
