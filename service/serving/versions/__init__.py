"""The versions of indexes and raters that serve requests.

`OpenVersions` holds them open and replaces them, a `Lease` fixes those of one request, and the `VersionWatcher` takes
up what is published.
"""
