"""Work on several machines: the only room that imports Ray, and only when a command asks for a cluster.

The main names:

- `connection.connect`: a cluster by its address
- `connection.Cluster`: runs functions of refaug as tasks, each again where a process or a machine has died
- `actors.Actors`: objects that live in processes of a cluster.
"""
