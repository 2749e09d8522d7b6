"""The API as plain values: what requests hold (`items`), the calls (`calls`) and what answers hold (`models`)."""
