"""Full-text index of messages: an FTS5 table in SQLite, a tsvector column in PostgreSQL.

Words are split here, not in the databases, so that both find the same. A word is a run of letters and digits,
normalised in case, accents, width and Unicode form, or one character of a script without spaces. The index has words in
hexadecimal, which the databases treat as single words. It also has the message's readers, so that a search reads
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
    text,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import TSQUERY, TSVECTOR

from circadia.characters import fold_text
from circadia.ids import AgentId
from circadia.stores.sql.schema import deliveries, messages
from circadia.stores.sql.statement import Statement

MAX_WORD_CHARACTERS: Final = 32
"""Significant characters of a word."""
_MAX_CHARACTERS: Final = 500_000
"""Indexed characters of a message; PostgreSQL's limit is 1 MiB. Words beyond are not found."""
_SPACELESS: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_ALONE: Final = re.compile(f"[{_SPACELESS}]")
_WORD: Final = re.compile(rf"[{_SPACELESS}]|[^\W{_SPACELESS}]+")
_BEFORE: Final = rf"(?<![^\W{_SPACELESS}])"


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchWords:
    """Words to search for; each matches the start of a word."""

    words: Sequence[str]
    """Without duplicates."""

    @staticmethod
    def parse(text: str) -> "SearchWords":
        words = (word[:MAX_WORD_CHARACTERS] for word in _WORD.findall(_fold(text)))
        return SearchWords(words=tuple(dict.fromkeys(words)))

    def match(self, text: str) -> bool:
        """Return whether the text matches, with the same result as the index."""
        spelling = _fold(text)
        return all(_has_word_prefix(word, spelling) for word in self.words)

    def build_query(self, reader: AgentId, dialect: str) -> str:
        """Return the index query for messages to this reader with these words."""
        prefixes = [_encode_word(word) for word in self.words]
        if dialect == "sqlite":
            return " ".join([_encode_reader(reader), *(f'"{prefix}" *' for prefix in prefixes)])
        return " & ".join([_encode_reader(reader), *(f"{prefix}:*" for prefix in prefixes)])


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageTextIndex:
    """The index in one dialect."""

    table: TableClause[Any]
    number: ColumnElement[int]
    """Column with the message number."""
    found: Callable[[ColumnElement[int]], ColumnElement[bool]]
    """Condition that a number belongs to a match of the parameter `query`. The matches are a list, not a join, which
    either database may start from the wrong end."""
    text: ColumnElement[Any]
    """Stored form of the parameter `line`."""

    @staticmethod
    def sqlite() -> "MessageTextIndex":
        index_table = table(
            "message_words", column("rowid", BigInteger), column("words", Text), column("message_words", Text)
        )
        matches = index_table.c.message_words.op("MATCH", is_comparison=True)(bindparam("query", type_=Text))
        numbers = select(index_table.c.rowid).where(matches)
        return MessageTextIndex(
            table=index_table,
            number=index_table.c.rowid,
            found=lambda number: number.in_(numbers),
            text=bindparam("line", type_=Text),
        )

    @staticmethod
    def postgresql() -> "MessageTextIndex":
        index_table = table("message_words", column("number", BigInteger), column("words", TSVECTOR))
        matches = index_table.c.words.op("@@", is_comparison=True)(cast(bindparam("query", type_=Text), TSQUERY))
        numbers = func.array(select(index_table.c.number).where(matches).scalar_subquery())
        return MessageTextIndex(
            table=index_table,
            number=index_table.c.number,
            found=lambda number: number == func.any(numbers),
            text=func.array_to_tsvector(func.string_to_array(bindparam("line", type_=Text), " ")),
        )


INDEXES: Final = {"sqlite": MessageTextIndex.sqlite(), "postgresql": MessageTextIndex.postgresql()}
_ADD: Final = {
    name: insert(index.table).values({index.number: bindparam("at"), index.table.c.words: index.text})
    for name, index in INDEXES.items()
}
_REMOVE: Final = {
    name: delete(index.table).where(index.number.in_(bindparam("numbers", expanding=True)))
    for name, index in INDEXES.items()
}
IS_NEW: Final = text("NOT messages.indexed")
"""In the form of the index `messages_unindexed`, which SQLite would not use for `indexed = 0`."""
_FIRST_NEW: Final = Statement(select(func.min(messages.c.number)).where(IS_NEW))
_NEW: Final = (
    select(messages.c.number, messages.c.id, messages.c.content)
    .where(IS_NEW)
    .order_by(messages.c.number)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)  # another process may be indexing the others
    .subquery()
)
_WITH_READERS: Final = Statement(
    select(_NEW.c.number, _NEW.c.content, deliveries.c.agent_id)
    .select_from(_NEW.outerjoin(deliveries, deliveries.c.message_id == _NEW.c.id))
    .order_by(_NEW.c.number)
)
_MARK: Final = (
    update(messages).where(messages.c.number.in_(bindparam("numbers", expanding=True))).values(indexed=true())
)


def fetch_first_unindexed(connection: Connection) -> int | None:
    """Return the smallest number of a message that is not indexed yet."""
    number: int | None = _FIRST_NEW.scalar(connection)
    return number


def index_next_messages(connection: Connection, most: int) -> int:
    """Index up to `most` further messages; return their number."""
    content: dict[int, str] = {}
    readers: defaultdict[int, set[str]] = defaultdict(set)
    for row in _WITH_READERS.all(connection, {"most": most}):
        content[row.number] = row.content
        if row.agent_id is not None:
            readers[row.number].add(_encode_reader(AgentId(row.agent_id)))
    lines = [{"at": number, "line": _build_line(text, readers[number])} for number, text in content.items()]
    if lines:
        connection.execute(_ADD[connection.dialect.name], lines)
        connection.execute(_MARK, {"numbers": list(content)})
    return len(lines)


def remove_from_index(connection: Connection, numbers: Collection[int]) -> None:
    connection.execute(_REMOVE[connection.dialect.name], {"numbers": list(numbers)})


def _build_line(text: str, readers: Collection[str]) -> str:
    """Return the indexed text; empty for a message without readers, which nobody searches."""
    line = " ".join([*readers, *map(_encode_word, SearchWords.parse(text).words)]) if readers else ""
    return line if len(line) <= _MAX_CHARACTERS else line[:_MAX_CHARACTERS].rpartition(" ")[0]


def _encode_word(word: str) -> str:
    return word.encode().hex()


def _encode_reader(agent_id: AgentId) -> str:
    return _encode_word(f"@{agent_id}")  # no word starts like this


def _has_word_prefix(word: str, spelling: str) -> bool:
    if word not in spelling:
        return False
    return _ALONE.match(word) is not None or re.search(_BEFORE + re.escape(word), spelling) is not None


def _fold(text: str) -> str:
    return fold_text(text).replace("\u0131", "i")  # in Turkish, I is the capital of another letter
