"""The dialects of each API."""

from collections.abc import Mapping

from circadia.gateway.dialects.anthropic_messages import AnthropicMessages, CountTokens
from circadia.gateway.dialects.base import Dialect, Plain
from circadia.gateway.dialects.gemini import CountContentTokens, GenerateContent
from circadia.gateway.dialects.openai_chat import ChatCompletions
from circadia.gateway.dialects.openai_completions import Completions
from circadia.gateway.dialects.openai_embeddings import Embeddings
from circadia.gateway.dialects.openai_responses import CompactedResponse, InputTokens, Responses, StoredResponse
from circadia.settings.upstreams import Api


def build_dialects(api: Api) -> Mapping[str, Dialect]:
    known: tuple[Dialect, ...] = (
        ChatCompletions(),
        Completions(),
        Embeddings(),
        Responses(),
        StoredResponse(),
        CompactedResponse(),
        InputTokens(),
        AnthropicMessages(),
        CountTokens(),
        GenerateContent(),
        CountContentTokens(),
        Plain(api),
    )
    return {dialect.endpoint: dialect for dialect in known}
