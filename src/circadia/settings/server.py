"""Section `server`: where Circadia listens and which clients it serves."""

from pydantic import Field

from circadia.settings.section import Section


class ServerSettings(Section):
    host: str = Field("127.0.0.1", description="Address to bind; loopback by default.")
    port: int = Field(4114, ge=0, le=65535, description="Port to bind; 0 takes a free one.")
    database_url: str | None = Field(
        None, description="PostgreSQL URL (`postgresql://user@host/db`); without it, SQLite in the data folder."
    )
    direct_database_url: str | None = Field(
        None, description="PostgreSQL URL without a pooler between; signals need it if `database_url` has one."
    )
    auth_grace_seconds: float = Field(
        30.0,
        ge=0,
        description="How long awake agents without budgets pass while PostgreSQL does not answer; then they get 503.",
    )
    readers: int = Field(4, ge=1, le=1000, description="Maximum number of database connections that read.")
    writers: int = Field(
        8, ge=1, le=1000, description="Maximum number of database connections that write; SQLite uses one."
    )
    operator_read_seconds: float = Field(
        5.0, gt=0, le=60, description="Maximum time of a statement for a list or sum that a person reads; then 504."
    )
    gateway_url: str | None = Field(
        None, description="URL at which launched agents reach a gateway; by default this process itself."
    )
    allowed_hosts: tuple[str, ...] = Field(
        (), description="Host names to accept besides `localhost`, `host` and addresses; `*` turns the check off."
    )
    allowed_origins: tuple[str, ...] = Field(
        (), description="Origins of web pages that may call the API and MCP (CORS); none by default."
    )
    metrics_token_env: str | None = Field(None, description="Environment variable with a token only for `/metrics`.")
    drain_seconds: float = Field(
        30.0,
        ge=0,
        description="How long pulses, running calls and opened holds may go on after SIGTERM; none after Ctrl-C.",
    )

    @property
    def connections(self) -> int:
        """Most connections to PostgreSQL: besides readers and writers two for people, one for `/readyz` and signals."""
        return self.readers + self.writers + 4
