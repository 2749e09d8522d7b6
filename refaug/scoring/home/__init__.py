"""Indexes, raters, rubers and VHREDs of a home, opened by name.

The main names:

- `indexes.open_index`: an index by `name` or `name@version`
- `networks.open_rater`: a rater by name
- `torch_networks.open_ruber`: a ruber by name
- `torch_networks.open_vhred`: a VHRED by name.
"""
