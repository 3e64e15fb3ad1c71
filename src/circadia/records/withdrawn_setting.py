"""Keys of earlier versions that have no effect any more."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, model_validator


class WithdrawnSettings(BaseModel):
    """A model that ignores `withdrawn` keys, so that files, requests and stored policies with them stay valid."""

    model_config = ConfigDict(frozen=True)

    withdrawn: ClassVar[Collection[str]] = ()

    @model_validator(mode="before")
    @classmethod
    def _drop_withdrawn(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return {name: value for name, value in cast("Mapping[str, Any]", given).items() if name not in cls.withdrawn}
