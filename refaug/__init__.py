"""refaug: how good is a reply when many different replies would have been fine.

The rooms are folders at the top of the repository; the links beside this file give them one import name.
"""

from refaug.core.version import VERSION

__all__ = ["VERSION"]
