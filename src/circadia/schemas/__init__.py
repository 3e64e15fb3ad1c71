"""What goes over the wire: one model per answer, which the REST API builds and the client returns."""
