"""Bodies of requests whose fields are options: pydantic leaves them to the decoder of all faces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Generic, Self, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PrivateAttr,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from refaug.core.errors import Usage
from refaug.core.options.decoding import BadOptions, Options, decode, options_with
from refaug.core.options.describing import OptionField, options_of, property_of
from refaug.core.options.kinds import WrongValue

_INDEXES: Final = re.compile(r"(\[\d+\])*")
T = TypeVar("T")
OptionsT = TypeVar("OptionsT", bound=Options)


class OptionsBody(BaseModel, Generic[OptionsT]):
    """A body with the fields of a dataclass of options: `class ScoresIn(OptionsBody[ScoreOptions])`.

    A model of it may have further fields. `options` are those of the body; what `check` refuses is a Usage.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    options_kind: ClassVar[type[Options]]
    _options: Any = PrivateAttr()

    def __class_getitem__(cls, kind: Any) -> Any:
        return _body_of(kind)

    @property
    def options(self) -> OptionsT:
        """The options that the body spells."""
        return cast("OptionsT", self._options)

    @model_validator(mode="after")
    def _make_options(self) -> Self:
        names = self.model_fields_set
        stated = [option.name for option in options_of(self.options_kind) if option.name in names]
        self._options = options_with(self.options_kind, {name: getattr(self, name) for name in stated})
        return self


@cache
def _body_of(kind: type[Options]) -> type[BaseModel]:
    """Return a model with the fields of these options, which are read and documented as the options are."""
    fields: dict[str, Any] = {
        option.name: (Annotated[Any, _OptionValue(option)], Field(**_settings(option))) for option in options_of(kind)
    }
    body: type[BaseModel] = create_model(f"{kind.__name__}Body", __base__=OptionsBody, **fields)
    body.options_kind = kind  # type: ignore[attr-defined]
    return body


def _settings(option: OptionField) -> dict[str, Any]:
    alias = {"alias": option.spelling} if option.spelling != option.name else {}
    return alias if option.is_required else {"default": option.default, **alias}


@dataclass(frozen=True)
class _OptionValue:
    """Annotated to a field: its value is read as that of the option."""

    option: OptionField

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return property_of(self.option)

    def _read(self, value: Any) -> Any:
        try:
            return self.option.kind.read(value)
        except WrongValue as wrong:
            raise _validation_error(self.option.spelling, wrong.places) from None


def decoded(kind: type[T], values: dict[str, Any], title: str, *path: str) -> T:
    """Return the options; pydantic's ValidationError has the place of each fault, below a path."""
    try:
        return decode(kind, values)
    except BadOptions as error:
        faults = [(fault.field, fault.message) for fault in error.faults]
    except Usage as error:
        faults = [(error.field, error.without_field)]
    raise _validation_error(title, faults, *path)


def _validation_error(title: str, faults: Sequence[tuple[str, str]], *path: str) -> ValidationError:
    details = [
        InitErrorDetails(
            type=PydanticCustomError("option", "{message}", {"message": message}),
            loc=(*path, *_parts(place)),
            input=None,
        )
        for place, message in faults
    ]
    return ValidationError.from_exception_data(title, details)


def _parts(place: str) -> list[int | str]:
    """Return a place such as `[3].k` as pydantic has it: 3, k."""
    indexes = _INDEXES.match(place)
    assert indexes is not None, "it matches nothing, too"
    rest = place[indexes.end() :].removeprefix(".")
    return [*(int(index) for index in re.findall(r"\d+", indexes[0])), *([rest] if rest else [])]
