"""Statements that episodes and notes share."""

from sqlalchemy import Table, bindparam, or_, select, update

from circadia.stores.sql.statement import Statement


def strangers(table: Table) -> Statement:
    """Return what finds rows without a vector by the `present` embedder, oldest first, `most` at most."""
    embedder = table.c.embedder
    other = or_(embedder.is_(None), embedder < bindparam("present"), embedder > bindparam("present"))  # by the index
    return Statement(select(table).where(other).order_by(table.c.number).limit(bindparam("most")))


def embed(table: Table) -> Statement:
    """Return what writes a vector: rows of number, vector, embedder."""
    return Statement(
        update(table)
        .where(table.c.number == bindparam("at_number"))
        .values(vector=bindparam("new_vector"), embedder=bindparam("new_embedder")),
        ("at_number", "new_vector", "new_embedder"),
    )
