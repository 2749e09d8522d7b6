"""Ingesting on a cluster: files are read, cleaned and paired by tasks on many machines, into the same log.

The main names:

- `ingest_cluster.IngestCluster`: the cluster as the steps of an ingest use it
- `tasks`: what one task does
- `block_files`: the files in which tasks hand over what they have read.
"""

__all__ = ["block_files", "ingest_cluster", "tasks"]
