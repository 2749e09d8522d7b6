"""The versions of indexes and raters that serve requests.

The main names:

- `open_versions.OpenVersions`: holds versions open, and replaces them
- `leases.Lease`: fixes the versions of one request
- `version_watcher.VersionWatcher`: takes up what is published.
"""

__all__ = ["leases", "open_versions", "served_versions", "version_watcher"]
