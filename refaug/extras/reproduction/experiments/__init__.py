"""The experiments of `refaug agreement reproduce`, one a file.

The main names:

- `recommended.recommended`: what refaug-1 adds to an encoder and a gold
- `metrics.metrics`: the published method beside controls that could refute it
- `weights.weights`: whether weights help.
"""
