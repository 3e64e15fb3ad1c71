"""The connection to a server: configuration, paging, references."""
