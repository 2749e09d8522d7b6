"""What is installed.

The main names:

- `extras.extras_named`: an error that names the extra of a missing module
- `extras.missing_part`: that error
- `extras.MODULES_OF_EXTRAS`: the modules of each extra
- `registrations.find`: what an extra adds under a name.
"""

__all__ = ["extras", "registrations"]
