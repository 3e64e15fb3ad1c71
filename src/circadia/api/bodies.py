"""Rules for all request bodies: no unknown keys, strict types."""

from typing import Annotated, Any, ClassVar, Final, cast

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from circadia.records.agent import FirstMistake, Name
from circadia.stores.nul_check import NUL, holds_nul
from circadia.suggestions import closest

_SHOWN_KEY: Final = 80
_MAX_REPORTED_ERRORS: Final = 5


Names = Annotated[list[Name], FirstMistake()]


class Body(BaseModel):
    """A request body. An unknown key is an error that suggests the nearest known key; so is a NUL in a text."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    bears_nul: ClassVar[bool] = False
    """Whether the server later removes NULs from the texts, for programs that would lose too much by an error."""

    @model_validator(mode="before")
    @classmethod
    def _keys_are_known(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        if not cls.bears_nul and holds_nul(cast("dict[str, object]", given)):
            raise PydanticCustomError("nul", "{message}", {"message": NUL})
        keys = [str(key) for key in cast("dict[object, object]", given)]
        known = {field.alias or name for name, field in cls.model_fields.items()}
        unknown = [key for key in keys if key not in known]
        if unknown:
            first_unknown = [key[:_SHOWN_KEY] for key in unknown[:_MAX_REPORTED_ERRORS]]
            message = ", ".join(f"unknown key {key!r}{_near(key, known)}" for key in first_unknown)
            raise PydanticCustomError("unknown_key", "{message}", {"message": message})
        return cast("dict[str, Any]", given)


def drop_defaults(schema: dict[str, Any]) -> None:
    """Remove the defaults from the schema of a body whose missing keys mean something else."""
    for key in schema["properties"].values():
        key.pop("default", None)


def _near(key: str, known: set[str]) -> str:
    near = closest(key, known, count=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(sorted(known))}"
