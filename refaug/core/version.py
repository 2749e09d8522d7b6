"""The version of refaug, stored in artefacts and signatures."""

VERSION = "0.1.0"
