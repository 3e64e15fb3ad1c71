"""Memory at the gateway: conversations, injected context, capture of turns."""
