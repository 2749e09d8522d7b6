"""refaug: how good is a reply when many different replies would have been fine.

The rooms are folders at the top of the repository; the links beside this file give them one import name.

The main names:

- `metrics.specification.build`: a metric from its specification
- `evaluation.scoring.evaluate.evaluate`: scores of systems, with intervals and comparisons
- `VERSION`: the version of this package.
"""

from refaug.core.version import VERSION

__all__ = ["VERSION"]
