"""The version of this library; it works with servers of the same minor version or newer."""

VERSION = "0.1.0"
