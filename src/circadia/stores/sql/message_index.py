"""Words of messages, and the index over them: in SQLite a table of FTS5, in PostgreSQL a column of type tsvector.

What a word is stands here and not in the databases, so that both find the same. A word is a run of letters and digits,
whatever its case, accents, width and form in Unicode, or one character of a script that has no spaces. In the index it
stands in hexadecimal, which the databases take as one word; so does the reader of the message, so that a search reads
nothing of other inboxes.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    TableClause,
    Text,
    bindparam,
    cast,
    column,
    delete,
    func,
    insert,
    select,
    table,
)
from sqlalchemy.dialects.postgresql import TSQUERY, TSVECTOR

from circadia.folding import fold_text
from circadia.ids import AgentId
from circadia.stores.sql.schema import deliveries, messages
from circadia.stores.sql.statement import Statement

LONGEST_WORD: Final = 32
"""Characters of a word that count."""
_MOST_CHARACTERS: Final = 500_000
"""Of one message in the index; PostgreSQL takes no more than 1 MiB. Words beyond are not found."""
_SPACELESS: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_ALONE: Final = re.compile(f"[{_SPACELESS}]")
_WORD: Final = re.compile(rf"[{_SPACELESS}]|[^\W{_SPACELESS}]+")
_BEFORE: Final = rf"(?<![^\W{_SPACELESS}])"


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchWords:
    """What is searched for: each of these words, or one that begins so."""

    words: Sequence[str]
    """The words, each once."""

    @staticmethod
    def parse(text: str) -> "SearchWords":
        """Return the words of a text."""
        found = (word[:LONGEST_WORD] for word in _WORD.findall(_fold(text)))
        return SearchWords(words=tuple(dict.fromkeys(found)))

    def match(self, text: str) -> bool:
        """Return whether the text has them, as the index would say."""
        spelling = _fold(text)
        return all(_has_word_prefix(word, spelling) for word in self.words)

    def build_query(self, reader: AgentId, dialect: str) -> str:
        """Return what asks the index for messages to this reader that have them."""
        beginnings = [_encode_word(word) for word in self.words]
        if dialect == "sqlite":
            return " ".join([_encode_reader(reader), *(f'"{each}" *' for each in beginnings)])
        return " & ".join([_encode_reader(reader), *(f"{each}:*" for each in beginnings)])


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageTextIndex:
    """The index in one dialect."""

    table: TableClause[Any]
    """Its table."""
    number: ColumnElement[int]
    """Number of a message in it."""
    found: Callable[[ColumnElement[int]], ColumnElement[bool]]
    """Returns whether a number is that of a message with the words of the parameter `query`: in a list that is made
    first, not in a join, of which either database may begin at the wrong end."""
    text: ColumnElement[Any]
    """What is stored for the parameter `line`."""

    @staticmethod
    def sqlite() -> "MessageTextIndex":
        """Return the index in SQLite."""
        made = table("message_words", column("rowid", BigInteger), column("words", Text), column("message_words", Text))
        matches = made.c.message_words.op("MATCH", is_comparison=True)(bindparam("query", type_=Text))
        numbers = select(made.c.rowid).where(matches)
        return MessageTextIndex(
            table=made,
            number=made.c.rowid,
            found=lambda number: number.in_(numbers),
            text=bindparam("line", type_=Text),
        )

    @staticmethod
    def postgresql() -> "MessageTextIndex":
        """Return the index in PostgreSQL."""
        made = table("message_words", column("number", BigInteger), column("words", TSVECTOR))
        matches = made.c.words.op("@@", is_comparison=True)(cast(bindparam("query", type_=Text), TSQUERY))
        numbers = func.array(select(made.c.number).where(matches).scalar_subquery())
        return MessageTextIndex(
            table=made,
            number=made.c.number,
            found=lambda number: number == func.any(numbers),
            text=func.array_to_tsvector(func.string_to_array(bindparam("line", type_=Text), " ")),
        )


INDEXES: Final = {"sqlite": MessageTextIndex.sqlite(), "postgresql": MessageTextIndex.postgresql()}
_LAST: Final = {
    name: select(index.number.label("number")).order_by(index.number.desc()).limit(1) for name, index in INDEXES.items()
}
_ADD: Final = {
    name: insert(index.table).values({index.number: bindparam("at"), index.table.c.words: index.text})
    for name, index in INDEXES.items()
}
_REMOVE: Final = {
    name: delete(index.table).where(index.number.in_(bindparam("numbers", expanding=True)))
    for name, index in INDEXES.items()
}
_INDEXED: Final = Statement(lambda connection: _LAST[connection.dialect.name])
_LATER: Final = (
    select(messages.c.number, messages.c.id, messages.c.content)
    .where(messages.c.number > bindparam("after"))
    .order_by(messages.c.number)
    .limit(bindparam("most"))
    .subquery()
)
_FRESH: Final = Statement(
    select(_LATER.c.number, _LATER.c.content, deliveries.c.agent_id)
    .select_from(_LATER.outerjoin(deliveries, deliveries.c.message_id == _LATER.c.id))
    .order_by(_LATER.c.number)
)


def fetch_last_indexed(connection: Connection) -> int:
    """Return the number of the last message in the index; later ones are not in it yet."""
    return int(_INDEXED.scalar(connection) or 0)


def index_next_messages(connection: Connection, most: int) -> int:
    """Put the next messages into the index, so many at most; return how many were put."""
    content: dict[int, str] = {}
    readers: defaultdict[int, set[str]] = defaultdict(set)
    for row in _FRESH.all(connection, {"after": fetch_last_indexed(connection), "most": most}):
        content[row.number] = row.content
        if row.agent_id is not None:
            readers[row.number].add(_encode_reader(AgentId(row.agent_id)))
    lines = [{"at": number, "line": _build_line(text, readers[number])} for number, text in content.items()]
    if lines:
        connection.execute(_ADD[connection.dialect.name], lines)
    return len(lines)


def remove_from_index(connection: Connection, numbers: Collection[int]) -> None:
    """Take messages out of the index."""
    connection.execute(_REMOVE[connection.dialect.name], {"numbers": list(numbers)})


def _build_line(text: str, readers: Collection[str]) -> str:
    """Return what stands in the index: nothing for a message without readers, which nobody searches."""
    line = " ".join([*readers, *map(_encode_word, SearchWords.parse(text).words)]) if readers else ""
    return line if len(line) <= _MOST_CHARACTERS else line[:_MOST_CHARACTERS].rpartition(" ")[0]


def _encode_word(word: str) -> str:
    return word.encode().hex()


def _encode_reader(agent_id: AgentId) -> str:
    return _encode_word(f"@{agent_id}")  # no word begins so


def _has_word_prefix(word: str, spelling: str) -> bool:
    if word not in spelling:
        return False
    return _ALONE.match(word) is not None or re.search(_BEFORE + re.escape(word), spelling) is not None


def _fold(text: str) -> str:
    return fold_text(text).replace("\u0131", "i")  # in Turkish, I is the capital of another letter than i
