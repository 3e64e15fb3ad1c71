"""The connection to a server: address and token, paging, references to agents."""
