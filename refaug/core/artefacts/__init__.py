"""Artefacts on disk: manifests, versions and their locks, resumable builds, transfer between machines.

The main names:

- `versions.Versions`: the versions of a kind of artefact, and which one is published
- `build_stages.Stages`: a build that continues after a kill
- `transfer.export_artefact`: an artefact in one file for another machine.
"""
