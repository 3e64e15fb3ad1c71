"""Token counts in the form of each API. Counts that are not reported are None."""

from typing import Final

from circadia.gateway.payload.fields import as_count, as_object
from circadia.llm.usage import Usage

_BESIDE_USAGE: Final = frozenset(
    {
        "id", "object", "created", "model", "choices", "usage", "system_fingerprint", "service_tier", "obfuscation",
        "provider", "timings", "time_info", "x_groq",
    }
)  # fmt: skip
"""Fields of the chunk with a stream's usage that contain nothing for the caller."""


def only_usage(chunk: dict[str, object]) -> bool:
    """Return whether a chunk with usage and without choices contains nothing else, such as cited sources."""
    return not any(value for key, value in chunk.items() if key not in _BESIDE_USAGE)


def completions_usage(value: object) -> Usage | None:
    """Return the usage of OpenAI's chat completions, completions and embeddings; None without any."""
    return _openai_usage(value, "prompt_tokens", "completion_tokens")


def responses_usage(value: object) -> Usage | None:
    return _openai_usage(value, "input_tokens", "output_tokens")


def _openai_usage(value: object, read: str, written: str) -> Usage | None:
    fields = as_object(value)
    if not fields:
        return None
    read_details = as_object(fields.get(f"{read}_details"))
    return Usage(
        input_tokens=as_count(fields.get(read)),
        output_tokens=as_count(fields.get(written)),
        cached_tokens=as_count(read_details.get("cached_tokens")),
        cache_write_tokens=as_count(read_details.get("cache_write_tokens")),
        reasoning_tokens=as_count(as_object(fields.get(f"{written}_details")).get("reasoning_tokens")),
    )


def messages_usage(value: object) -> Usage | None:
    """Return the usage of Anthropic's messages; None without any.

    Anthropic counts cache reads and writes beside `input_tokens`; here the input is the sum of all three.
    """
    fields = as_object(value)
    if not fields:
        return None
    plain = as_count(fields.get("input_tokens"))
    cached = as_count(fields.get("cache_read_input_tokens"))
    cache_write = as_count(fields.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=None if plain is None else plain + (cached or 0) + (cache_write or 0),
        output_tokens=as_count(fields.get("output_tokens")),
        cached_tokens=cached,
        cache_write_tokens=cache_write,
        cache_write_1h_tokens=as_count(as_object(fields.get("cache_creation")).get("ephemeral_1h_input_tokens")),
        reasoning_tokens=as_count(as_object(fields.get("output_tokens_details")).get("thinking_tokens")),
    )


def contents_usage(value: object) -> Usage | None:
    """Return the usage of Gemini's `generateContent`; None without any.

    Google counts thoughts beside the candidates, and tool input beside the prompt; here both are included.
    """
    fields = as_object(value)
    if not fields:
        return None
    read, tools = as_count(fields.get("promptTokenCount")), as_count(fields.get("toolUsePromptTokenCount"))
    written, thoughts = as_count(fields.get("candidatesTokenCount")), as_count(fields.get("thoughtsTokenCount"))
    return Usage(
        input_tokens=None if read is None else read + (tools or 0),
        output_tokens=None if written is None and thoughts is None else (written or 0) + (thoughts or 0),
        cached_tokens=as_count(fields.get("cachedContentTokenCount")),
        reasoning_tokens=thoughts,
    )
