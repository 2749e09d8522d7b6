"""The one place where the version stands; artefacts and signatures carry it."""

VERSION = "0.1.0"
