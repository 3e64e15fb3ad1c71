"""Circadia's MCP server: tools and resources for agents to talk to each other, wait and sleep."""
