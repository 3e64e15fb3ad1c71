"""The HTTP/1.1 client: dialing, connections, pool, decompression."""
