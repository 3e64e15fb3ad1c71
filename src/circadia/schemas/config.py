"""The configuration in force, in answers."""

from typing import Any, Literal

from pydantic import Field

from circadia.schemas.view import View


class EffectiveSettingView(View):
    """A setting with the value in force."""

    key: str = Field(description="Path of the key.", examples=["server.port"])
    value: Any = Field(description="Value; `(hidden)` in place of what may be a secret.", examples=[4114])
    source: Literal["file", "defaults", "built in"] = Field(
        description="`file`, `defaults` if an agent takes it from that section, or `built in`."
    )


class ConfigurationView(View):
    """The configuration with which this server has started."""

    version: str = Field(description="Version of Circadia.")
    check: str = Field(description="Digits that are the same at servers with the same configuration.")
    settings: list[EffectiveSettingView] = Field(description="All settings, in the order of the reference.")
