"""Numbers that the web processes of a server count together, in memory that they share.

The main names:

- `figure_memory.FigureMemory`: the memory, with a table for each process
- `figure_memory.sum_up`: adds up tables
- `figure_memory.FigureTable`: the numbers of one process.

`service/prometheus_figures.py` says what is counted, and writes it for Prometheus.
"""
