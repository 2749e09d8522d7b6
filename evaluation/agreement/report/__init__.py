"""The report of `refaug meta`: CSV, LaTeX, an HTML page and plots."""
