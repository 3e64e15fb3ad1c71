"""What a model call used, in tokens."""

from circadia.records.per_call import per_call


@per_call
class Usage:
    """Counts of tokens as the provider told them; none where it told nothing."""

    input_tokens: int | None = None
    """Read, cached ones included (Anthropic's input, cache reads and cache writes together)."""
    output_tokens: int | None = None
    """Written, reasoning included."""
    cached_tokens: int | None = None
    """Of the input, read from the provider's cache."""
    cache_write_tokens: int | None = None
    """Of the input, written to the provider's cache."""
    cache_write_1h_tokens: int | None = None
    """Of what was written to the cache, what it keeps for an hour, which costs more."""
    reasoning_tokens: int | None = None
    """Of the output, reasoning."""
