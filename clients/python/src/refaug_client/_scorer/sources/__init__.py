"""Where a scorer's scores come from: the caches, and the server's answers about single replies and whole corpora."""
