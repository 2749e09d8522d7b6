"""Parts that all reports share: HTML pages and plots."""
