"""Sections `memory` and `banks`."""

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator

from circadia.records.bank import BankPolicy, BankRules
from circadia.records.variable_name import VariableName
from circadia.settings.section import Section, require_api_root
from circadia.settings.sleeptime import SleepPolicySettings


class BundledEmbedderSettings(Section):
    kind: Literal["bundled"] = Field("bundled", description="A small model that comes with Circadia; no download.")


class NoEmbedderSettings(Section):
    kind: Literal["none"] = Field(description="No vectors: searches use words only.")


class EndpointEmbedderSettings(Section):
    kind: Literal["endpoint"] = Field(description="Vectors come from an endpoint with OpenAI's `/embeddings` API.")
    base_url: str = Field(description="Base URL; the server calls `{base_url}/embeddings`.")
    model: str = Field(min_length=1, description="Name of the model.")
    key_env: VariableName | None = Field(
        None, description="Environment variable with its key; without it no key is sent."
    )
    dimensions: int | None = Field(
        None, ge=1, description="Number of dimensions to request; by default the model's, taken from its first answer."
    )
    question_prefix: str = Field("", description="Prefix that some models need before a question, such as `query: `.")
    batch: int = Field(32, ge=1, le=256, description="Maximum number of texts per request.")
    max_characters: int = Field(8_000, ge=1, description="Maximum number of characters of a text to send.")
    timeout_seconds: float = Field(30.0, gt=0, description="Longest wait for an answer.")

    @field_validator("base_url")
    @classmethod
    def _http_url(cls, value: str) -> str:
        if not re.match(r"https?://[^/@?#]+(/|$)[^?#]*$", value):
            raise ValueError("must be an http or https address without a user or a query in it")
        return require_api_root(value)


class LocalEmbedderSettings(Section):
    kind: Literal["local"] = Field(
        description="An encoder in the server, without a key or another program. `circadia model fetch` downloads "
        "`minilm` and `mpnet`; `e5` comes with the extra `e5`."
    )
    model: Literal["minilm", "mpnet", "e5"] = Field(
        "minilm",
        description="all-MiniLM-L6-v2 takes some milliseconds per text, all-mpnet-base-v2 several times that; both are "
        "English. multilingual-e5-small (`e5`) knows a hundred languages.",
    )


class FastembedEmbedderSettings(Section):
    kind: Literal["fastembed"] = Field(description="The extra `fastembed` runs the model in the server.")
    model: str = Field(
        "BAAI/bge-small-en-v1.5",
        min_length=1,
        description="Name of the model in fastembed, which downloads it on first use.",
    )
    cache_folder: str | None = Field(None, description="Folder for models; by default fastembed's choice.")
    threads: int | None = Field(None, ge=1, description="Maximum number of threads; by default fastembed's choice.")


EmbedderSettings = Annotated[
    BundledEmbedderSettings
    | NoEmbedderSettings
    | LocalEmbedderSettings
    | EndpointEmbedderSettings
    | FastembedEmbedderSettings,
    Field(discriminator="kind"),
]


class MemorySettings(Section):
    embedder: EmbedderSettings = Field(
        BundledEmbedderSettings.model_validate({}), description="Model that computes the vectors for search by meaning."
    )
    previous_embedder: EmbedderSettings | None = Field(
        None,
        description="The former embedder: searches use its vectors until each text has one from `embedder`. Then "
        "remove it.",
    )
    question_timeout_seconds: float = Field(
        1.0, gt=0, description="How long a search waits for the vector of its question before it uses words only."
    )
    max_index_bytes: int = Field(
        2**30, ge=1, description="Memory for loaded banks; the server unloads the least recently used ones."
    )


class BankSettings(BankRules, Section):
    """A bank, or a template of banks: a name with `{user}` in it."""

    description: str = Field("", description="Purpose of the bank.")
    sleeptime: SleepPolicySettings = Field(
        SleepPolicySettings.model_validate({}),
        description="Passes over this bank: keys stated here replace those of section `sleeptime`.",
    )

    def policy(self) -> BankPolicy:
        return self.apply_to(BankPolicy())

    def apply_to(self, before: BankPolicy) -> BankPolicy:
        """Return the policy with the stated keys changed."""
        stated = {name: getattr(self, name) for name in self.model_fields_set - {"description"}}
        if "sleeptime" in stated:
            stated["sleeptime"] = self.sleeptime.model_dump(mode="json", exclude_unset=True)
        return before.model_copy(update=stated)
