"""Agreement of metrics with people: `refaug meta` and its probe."""
