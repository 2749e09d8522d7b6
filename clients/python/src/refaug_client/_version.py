"""The version of this library; of servers, those of the same minor version or newer understand it."""

VERSION = "0.1.0"
