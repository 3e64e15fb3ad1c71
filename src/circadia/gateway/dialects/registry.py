"""Which dialect reads which endpoint."""

from collections.abc import Mapping
from typing import Literal

from circadia.gateway.dialects.anthropic_messages import CountTokens, Messages
from circadia.gateway.dialects.base import Dialect
from circadia.gateway.dialects.openai_chat import ChatCompletions
from circadia.gateway.dialects.openai_completions import Completions
from circadia.gateway.dialects.openai_embeddings import Embeddings
from circadia.gateway.dialects.openai_responses import Responses, StoredResponse
from circadia.gateway.dialects.plain import Plain


def dialects(api: Literal["openai", "anthropic"]) -> Mapping[str, Dialect]:
    """Return the dialects of an upstream by the key that a Route names."""
    known: tuple[Dialect, ...] = (
        ChatCompletions(),
        Completions(),
        Embeddings(),
        Responses(),
        StoredResponse(),
        Messages(),
        CountTokens(),
        Plain(api),
    )
    return {dialect.endpoint: dialect for dialect in known}
