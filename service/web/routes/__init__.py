"""Routes, one file a noun; each reads its input, calls once, and wraps what came."""
