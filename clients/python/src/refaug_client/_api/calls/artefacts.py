"""The calls about indexes and raters."""

from __future__ import annotations

from typing import Optional

from refaug_client._api import models
from refaug_client._http.call import Call, path

from .bodies import PAGE, request_body
from .readers import read_model, read_page


def list_indexes(*, after: Optional[str] = None, limit: int = PAGE) -> Call[models.Rows[models.Index]]:
    """GET /v1/indexes: one page."""
    return Call("GET", "/v1/indexes", read_page(models.Index, "indexes"), query={"after": after, "limit": limit})


def get_index(name: str) -> Call[models.Index]:
    """GET /v1/indexes/{name}."""
    return Call("GET", path("v1", "indexes", name), read_model(models.Index))


def list_index_versions(
    name: str, *, after: Optional[str] = None, limit: int = PAGE
) -> Call[models.Rows[models.IndexVersion]]:
    """GET /v1/indexes/{name}/versions: one page."""
    read = read_page(models.IndexVersion, "versions")
    return Call("GET", path("v1", "indexes", name, "versions"), read, query={"after": after, "limit": limit})


def publish_index(
    name: str, *, version: Optional[str] = None, rollback: bool = False, even_refused: bool = False
) -> Call[models.Published]:
    """PUT /v1/indexes/{name}/current; not repeatable with `rollback`, which goes one version back each time."""
    document = request_body(version=version, rollback=rollback or None, even_refused=even_refused or None)
    read = read_model(models.Published)
    return Call("PUT", path("v1", "indexes", name, "current"), read, body=document, repeatable=not rollback)


def list_raters(*, after: Optional[str] = None, limit: int = PAGE) -> Call[models.Rows[models.Rater]]:
    """GET /v1/raters: one page."""
    return Call("GET", "/v1/raters", read_page(models.Rater, "raters"), query={"after": after, "limit": limit})


def get_rater(name: str) -> Call[models.Rater]:
    """GET /v1/raters/{name}."""
    return Call("GET", path("v1", "raters", name), read_model(models.Rater))


def list_rater_versions(
    name: str, *, after: Optional[str] = None, limit: int = PAGE
) -> Call[models.Rows[models.RaterVersion]]:
    """GET /v1/raters/{name}/versions: one page."""
    read = read_page(models.RaterVersion, "versions")
    return Call("GET", path("v1", "raters", name, "versions"), read, query={"after": after, "limit": limit})


def publish_rater(
    name: str, *, version: Optional[str] = None, rollback: bool = False, even_refused: bool = False
) -> Call[models.Published]:
    """PUT /v1/raters/{name}/current; not repeatable with `rollback`, as for indexes."""
    document = request_body(version=version, rollback=rollback or None, even_refused=even_refused or None)
    read = read_model(models.Published)
    return Call("PUT", path("v1", "raters", name, "current"), read, body=document, repeatable=not rollback)
