"""MCP servers behind the gateway: HTTP and stdio transports, sessions."""
