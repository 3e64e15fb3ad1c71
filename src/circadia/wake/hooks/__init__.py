"""Inbound webhooks: their signatures, filters and templates, and how a delivery becomes a message (WAKE-82)."""
