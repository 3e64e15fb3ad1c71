"""Shipped fakes: a mock model provider, a mock MCP server, a clock that tests move."""
