"""RUBER's unreferenced part: its network, its training and its artefact.

The main names:

- `network.RuberNetwork`: the network
- `build.train_ruber`: logs to a published ruber
- `network.Relevance`: how well replies go with utterances.
"""
