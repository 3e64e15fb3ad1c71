"""Commands for the machine of the server: serve, init, config, model, the database, dreams, import."""
