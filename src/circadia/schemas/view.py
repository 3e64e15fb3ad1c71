"""The base class of all answer models."""

from functools import cache
from typing import Any, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field


class View(BaseModel):
    """A model of an answer: the server builds it from a record, the client from JSON.

    If the record's attribute has another name than the field, it is the last of the field's `AliasChoices`.
    """

    model_config = ConfigDict(defer_build=True, hide_input_in_errors=True, populate_by_name=True)

    @classmethod
    def of(cls, record: object, /, **values: Any) -> Self:
        """Return the view of a record; `values` replace attributes, or add what the record does not know."""
        for key, attribute in _sources(cls, tuple(values)):
            values[key] = getattr(record, attribute)
        # As `model_validate` does, without its checks of options: a page has thousands of views.
        return cls.__pydantic_validator__.validate_python(values, from_attributes=True)


class SettingsView(View):
    """An answer with settings that several people change."""

    etag: str = Field(default="", exclude=True)
    """The `ETag` header of the answer, in the client: send it as `if_match` with a change. Entries of lists have none.

    Answers that no list holds have it in their body too, for clients that hide headers.
    """


@cache
def _sources(model: type[BaseModel], beside: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the key and the record's attribute of each field that is not `beside`."""
    return tuple(
        (str(choices[0]), str(choices[-1]))
        for name, field in model.model_fields.items()
        if name not in beside and not field.exclude
        for choices in [field.validation_alias.choices if isinstance(field.validation_alias, AliasChoices) else [name]]
    )
