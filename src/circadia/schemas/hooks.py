"""Inbound webhooks and their deliveries in answers."""

from datetime import datetime

from pydantic import AliasChoices, ConfigDict, Field

from circadia.records.hook import HookKeys
from circadia.schemas.view import View


class HookView(HookKeys, View):
    """An inbound webhook. Its secret is in an environment variable and never shown."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    name: str = Field(description="Name of the hook.", examples=["github"])
    path: str = Field(description="Path to which the sender posts.", examples=["/hooks/github"])
    in_file: bool = Field(description="Whether the configuration file defines it; REST changes the others only.")
    created_at: datetime | None = Field(description="When somebody last set it over REST; null for one of the file.")
    created_by: str | None = Field(description="Who set it; null for one of the file.")


class HookList(View):
    """All hooks."""

    hooks: list[HookView] = Field(description="Hooks by name.")


class HookDeliveryView(View):
    """A delivery that a hook accepted."""

    delivery: str = Field(
        validation_alias=AliasChoices("delivery", "delivery_id"), description="Id of the delivery, by its sender."
    )
    at: datetime = Field(description="When it was accepted.")
    message: str | None = Field(
        validation_alias=AliasChoices("message", "message_id"), description="Id of the message that it became."
    )
    wake: str | None = Field(
        validation_alias=AliasChoices("wake", "wake_id"), description="Id of the wake request that it made."
    )


class HookDeliveryList(View):
    """The last deliveries that a hook accepted."""

    deliveries: list[HookDeliveryView] = Field(description="Deliveries, newest first.")
