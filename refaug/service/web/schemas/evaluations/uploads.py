"""Models of uploads and of their preview."""

from __future__ import annotations

from pydantic import BaseModel, Field

from refaug.operations.item_sources import ItemSources
from refaug.service.evaluations.uploads import UploadFormat
from refaug.service.option_groups import OptionsBody
from refaug.service.web.schemas.common import ResponseModel


class UploadRow(BaseModel):
    """An uploaded file."""

    id: str = Field(description="names it: `upload:` and this is how orders name the file")
    name: str = Field(description="what it was called; messages call it so")
    format: UploadFormat = Field(description="what it holds; auto: its content says")
    bytes: int = Field(description="its size, as it was sent")
    sha256: str = Field(description="hash of its bytes")
    created: str = Field(description="when it came")
    expires: str = Field(description="when it is removed")
    owner: str = Field(description="name of the key that sent it")


class UploadOut(UploadRow, ResponseModel):
    """An uploaded file."""


class UploadsOut(ResponseModel):
    """The uploaded files that the key may see."""

    uploads: list[UploadRow] = Field(description="newest first")
    bytes: int = Field(description="what all uploads on this server take")
    limit_bytes: int = Field(description="what they may take")
    largest_bytes: int = Field(description="what one of them may take")


class PreviewIn(OptionsBody[ItemSources]):
    """Files to look at, named as an order of kind score names them."""


class PreviewCounts(BaseModel):
    """What the files hold."""

    items: int = Field(description="items that can be used")
    replies: int = Field(description="their replies")
    ratings: int = Field(description="their ratings")
    bad: int = Field(description="rows or items that cannot be used")
    is_partial: bool = Field(description="whether reading stopped at the server's limit of a preview")


class UsedColumn(BaseModel):
    """A column that is used."""

    field: str = Field(description="the field of items that it holds")
    system: str = Field(description="the system that it is of, or nothing")
    column: str = Field(description="its name in the table")


class PreviewTable(BaseModel):
    """The columns of a table."""

    kind: str = Field(description="how the file holds rows, in words")
    shape: str = Field(description="what a row is: item, reply or rating")
    rows: int = Field(description="rows that were read")
    used: list[UsedColumn] = Field(description="columns that are used")
    columns: list[str] = Field(description="all columns, the used ones first; at most 200")
    more_columns: int = Field(description="how many more there are")
    unused: list[str] = Field(description="columns that are not used; at most 200")
    more_unused: int = Field(description="how many more there are")
    duplicates: int = Field(description="rows that say what an earlier one says")
    left_out: dict[str, int] = Field(description="what was left out, by its reason")


class BadRowOut(BaseModel):
    """A row that cannot be used."""

    file: str | None = Field(description="name of its file")
    line: int | None = Field(description="its line, from 1")
    item: str | None = Field(description="id of the item, where it has one")
    field: str | None = Field(description="the field that is wrong, or nothing")
    message: str | None = Field(description="what was found, and what would be right")


class PreviewOut(ResponseModel):
    """Files as a score would read them."""

    items: list[dict[str, object]] = Field(description="the first five items")
    counts: PreviewCounts = Field(description="what the files hold")
    systems: list[str] = Field(description="systems that have replies")
    table: PreviewTable | None = Field(description="the columns; null for files without columns")
    warnings: list[str] = Field(description="what to know")
    bad_rows: list[BadRowOut] = Field(description="the first hundred rows that cannot be used")
    more_bad_rows: int = Field(description="how many more there are")
