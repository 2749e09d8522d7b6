"""Ingesting on a cluster: files are read, cleaned and paired by tasks on many machines, into the same log.

The main names:

- `ingest_cluster.IngestCluster`: the cluster as the steps of an ingest use it
- `ingest_cluster`: what one task does
- `ingest_cluster`: the files in which tasks hand over what they have read.
"""

__all__ = ["ingest_cluster"]
