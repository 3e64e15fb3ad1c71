"""Circadia: the sleep-wake-dream runtime for AI agents."""
