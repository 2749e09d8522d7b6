"""Reading dialogue logs: finding and opening sources, recognising their format, and turning rows into turns."""
