"""Circadia's own MCP server: tools and resources by which agents talk to each other, wait and sleep."""
