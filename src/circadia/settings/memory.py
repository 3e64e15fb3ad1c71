"""Sections `memory` and `banks`."""

import re
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, field_validator

from circadia.records.bank import BankPolicy, Capture
from circadia.settings.section import Section
from circadia.settings.sleeptime import SleepPolicySettings


class BundledEmbedderSettings(Section):
    """The embedder that comes with Circadia."""

    kind: Literal["bundled"] = Field("bundled", description="A small model that comes with Circadia: no download.")


class NoEmbedderSettings(Section):
    """No embedder."""

    kind: Literal["none"] = Field(description="No vectors: searches go by words alone.")


class EndpointEmbedderSettings(Section):
    """An endpoint that speaks OpenAI's `/embeddings`."""

    kind: Literal["endpoint"] = Field(description="Vectors come from an endpoint that speaks OpenAI's `/embeddings`.")
    base_url: str = Field(description="Where it is: `{base_url}/embeddings` is asked.")
    model: str = Field(min_length=1, description="Model to ask for.")
    key_env: str | None = Field(None, description="Environment variable with its key; without it no key is sent.")
    dimensions: int | None = Field(
        None, ge=1, description="Dimensions to ask for; without it the model's own, found out with the first answer."
    )
    question_prefix: str = Field("", description="What some models want in front of a question, such as `query: `.")
    batch: int = Field(32, ge=1, le=256, description="Most texts in one request.")
    max_characters: int = Field(8_000, ge=1, description="How much of a long text is sent.")
    timeout_seconds: float = Field(30.0, gt=0, description="Longest wait for an answer.")

    @field_validator("base_url")
    @classmethod
    def _http_url(cls, value: str) -> str:
        if not re.match(r"https?://[^/@?#]+(/|$)[^?#]*$", value):
            raise ValueError("must be an http or https address without a user or a query in it")
        return value.rstrip("/")


class LocalEmbedderSettings(Section):
    """An encoder that runs in the server."""

    kind: Literal["local"] = Field(
        description="An encoder runs in the server, without a key or another program: `circadia model fetch` gets it."
    )
    model: Literal["minilm", "mpnet"] = Field(
        "minilm", description="all-MiniLM-L6-v2, some milliseconds a text, or all-mpnet-base-v2, several times that."
    )


class FastembedEmbedderSettings(Section):
    """A model that fastembed runs in the server."""

    kind: Literal["fastembed"] = Field(description="fastembed runs the model in the server: the extra `fastembed`.")
    model: str = Field("BAAI/bge-small-en-v1.5", min_length=1, description="Model, as fastembed calls it.")
    cache_folder: str | None = Field(None, description="Where models are kept; without it, fastembed's choice.")
    threads: int | None = Field(None, ge=1, description="Most threads; without it, fastembed's choice.")


EmbedderSettings = Annotated[
    BundledEmbedderSettings
    | NoEmbedderSettings
    | LocalEmbedderSettings
    | EndpointEmbedderSettings
    | FastembedEmbedderSettings,
    Field(discriminator="kind"),
]
"""Any of them, told apart by `kind`."""


class MemorySettings(Section):
    """How banks are searched."""

    embedder: EmbedderSettings = Field(
        BundledEmbedderSettings.model_validate({}), description="What makes the vectors by which meaning is found."
    )
    previous_embedder: EmbedderSettings | None = Field(
        None,
        description="What made them before: its vectors are read until each text has one of `embedder`; take it out "
        "then.",
    )
    question_timeout_seconds: float = Field(
        1.0, gt=0, description="How long a search waits for the vector of its question; then it goes by words alone."
    )
    max_index_bytes: int = Field(
        2**30,
        ge=1,
        description="Memory for the banks that are kept loaded to be searched; the ones used longest ago go.",
    )


class BankSettings(Section):
    """A bank, or a template of banks: a name with `{user}` in it."""

    description: str = Field("", description="What it is for.")
    capture: Capture = Field(
        Capture.CONTENT,
        description="What of the conversations that pass the gateway is kept: `all` turns, those with `content`, or "
        "only what is remembered on purpose (`explicit`).",
    )
    capture_tools: bool = Field(False, description="Keep calls of tools and their results too.")
    min_importance: float = Field(0.0, ge=0, le=1, description="Turns that score less are left out and counted.")
    tune_importance: bool = Field(
        False,
        description="Where `min_importance` is 0, passes tune it, up to 0.3, by which kept turns were found later.",
    )
    hot_edits: bool = Field(False, description="Agents may write blocks while somebody waits.")
    duplicate_seconds: float = Field(
        3600.0, ge=0, description="An exact repetition within this time is counted on the first, not stored."
    )
    keep_days: float | None = Field(
        None, gt=0, description="Episodes older than this are deleted with what is derived; without it, never."
    )
    sleeptime: SleepPolicySettings = Field(
        SleepPolicySettings.model_validate({}),
        description="Passes over this bank: what is stated here holds instead of what section `sleeptime` says.",
    )

    def policy(self) -> BankPolicy:
        """Return the record of these settings."""
        return self.apply_to(BankPolicy())

    def apply_to(self, before: BankPolicy) -> BankPolicy:
        """Return a policy with what is stated here; a key that is left out stays as it is."""
        stated = {name: getattr(self, name) for name in self.model_fields_set - {"description"}}
        if "sleeptime" in stated:
            stated["sleeptime"] = self.sleeptime.model_dump(mode="json", exclude_unset=True)
        return replace(before, **stated)
