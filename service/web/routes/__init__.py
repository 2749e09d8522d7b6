"""Routes, one module for each kind of resource."""
