"""`python -m refaug_client` is `refaug-client`."""

from __future__ import annotations

import sys

from ._cli import main

sys.exit(main())
