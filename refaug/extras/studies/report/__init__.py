"""The report of a study: every figure as JSON, and from that alone its page and its Markdown.

The main names:

- `numbers.study_report`: all figures of some tasks under a protocol
- `beside.metrics_beside`: how far metrics agree with these people
- `pages.write_study_report`: the page, Markdown and JSON in a folder.
"""
