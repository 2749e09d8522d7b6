"""The guard of each connection: what a client may send when, and for how long.

The main names:

- `guard.Guard`: the protocol of a connection, which holds uvicorn's
- `states.TABLE`: what happens in each state at each event
- `open_connections.OpenConnections`: the clocks, and who makes room for new connections.
"""
