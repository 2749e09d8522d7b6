"""Searching an index whose shards are open in processes of a cluster.

The main names:

- `fleet.ShardFleet`: the shards of one version, opened on the machines of a cluster
- `remote_segments.RemoteSegments`: these as one search asks them
- `shard_server.ShardServer`: what such a process does; `node_copies.hold_copy`: where its files come from.
"""
