"""The versions of indexes and raters that serve requests.

The main names:

- `open_versions.OpenVersions`: holds versions open, and refreshes them
- `open_versions.VersionSwitch`: where a published version becomes the served one
- `leases.Lease`: fixes the versions of one request.
"""
