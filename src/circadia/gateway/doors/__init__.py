"""The ASGI entry points for model and MCP calls."""
