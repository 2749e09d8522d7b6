"""`python -m refaug` is the command `refaug`."""

from __future__ import annotations

import sys

from refaug.cli import start

sys.exit(start())
