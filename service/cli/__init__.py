"""The command `refaug`: one file per noun; flags → a dataclass → one call → results on stdout."""
