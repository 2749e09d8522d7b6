"""What comes in and goes out over HTTP, as models of their own: records may change without the interface."""
