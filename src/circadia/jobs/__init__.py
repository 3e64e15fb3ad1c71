"""Leases of durable work of any kind."""
