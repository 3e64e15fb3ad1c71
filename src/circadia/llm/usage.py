"""Token counts of a model call."""

from circadia.records.fast_record import fast_record


@fast_record
class Usage:
    """Token counts as the provider reported them; none where it reported nothing."""

    input_tokens: int | None = None
    """Input, cached tokens included (Anthropic's input, cache reads and cache writes together)."""
    output_tokens: int | None = None
    """Output, reasoning included."""
    cached_tokens: int | None = None
    """Part of the input that was read from the provider's cache."""
    cache_write_tokens: int | None = None
    """Part of the input that was written to the provider's cache."""
    cache_write_1h_tokens: int | None = None
    """Part of the cache writes that is kept for an hour, which costs more."""
    reasoning_tokens: int | None = None
    """Part of the output."""
