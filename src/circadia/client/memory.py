"""Client methods for memory: banks, episodes, searches, contexts, blocks, ready answers."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from circadia.client.connection import ApiConnection, Time
from circadia.schemas.answers import AnswerPage, AnswerStats, AnswerView, DroppedView, TestView
from circadia.schemas.banks import (
    BankList,
    BankView,
    BlockList,
    BlockView,
    ContextView,
    EpisodePage,
    EpisodeView,
    ForgottenEpisodeList,
    ForgottenView,
    HitList,
    ImportedView,
    StaleChange,
    StoredEpisodeView,
)


class MemoryCalls:
    """One method per endpoint of memory and ready answers.

    A bank is given by name, or by its template and the end `user`. Times are ISO 8601.
    """

    _http: ApiConnection

    async def create_bank(
        self, name: str, *, description: str = "", policy: Mapping[str, Any] | None = None
    ) -> BankView:
        body = {"name": name, "description": description, "policy": policy}
        return await self._http.fetch(BankView, "POST", "banks", body=body)

    async def list_banks(
        self, *, template: str | None = None, name: str | None = None, after: str | None = None, limit: int = 100
    ) -> BankList:
        """Return banks by name, optionally only those of a template, or whose name begins with `name`."""
        query = {"template": template, "name": name, "after": after, "limit": limit}
        return await self._http.fetch(BankList, "GET", "banks", query=query)

    async def show_bank(self, bank: str, *, user: str | None = None) -> BankView:
        return await self._http.fetch(BankView, "GET", "banks", bank, query={"user": user})

    async def change_bank(
        self,
        bank: str,
        *,
        name: str | None = None,
        description: str | None = None,
        policy: Mapping[str, Any] | None = None,
        user: str | None = None,
        if_match: str | None = None,
    ) -> BankView:
        """Change the given values."""
        body = {"name": name, "description": description, "policy": policy}
        return await self._http.fetch(
            BankView, "PATCH", "banks", bank, body=body, query={"user": user}, if_match=if_match
        )

    async def delete_bank(self, bank: str, *, user: str | None = None) -> None:
        """Delete a bank and its contents."""
        await self._http.call("DELETE", "banks", bank, query={"user": user})

    async def forget_episodes(
        self,
        bank: str,
        *,
        ids: Sequence[str] | None = None,
        conversation: str | None = None,
        speaker: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        dry_run: bool = False,
        user: str | None = None,
    ) -> ForgottenView:
        """Delete the episodes that meet all conditions, with everything derived; `dry_run` only counts.

        `ids` may also name notes.
        """
        body = {
            "ids": ids, "conversation": conversation, "speaker": speaker, "since": since,
            "until": until, "dry_run": dry_run,
        }  # fmt: skip
        return await self._http.fetch(ForgottenView, "POST", "banks", bank, "forget", body=body, query={"user": user})

    async def remember(
        self,
        bank: str,
        text: str,
        *,
        speaker: str | None = None,
        at: Time | None = None,
        kind: str = "turn",
        conversation: str | None = None,
        trust: str | None = None,
        importance: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        incomplete: bool = False,
        key: str | None = None,
        expires_at: str | None = None,
        user: str | None = None,
    ) -> StoredEpisodeView:
        """Append an episode; it is on disk when this returns. `key` makes repeats safe."""
        body = {
            "text": text, "speaker": speaker, "at": at, "kind": kind, "conversation": conversation, "trust": trust,
            "importance": importance, "metadata": metadata or {}, "incomplete": incomplete, "key": key,
            "expires_at": expires_at,
        }  # fmt: skip
        return await self._http.fetch(
            StoredEpisodeView, "POST", "banks", bank, "episodes", body=body, query={"user": user}
        )

    async def list_episodes(
        self,
        bank: str,
        *,
        conversation: str | None = None,
        order: str = "oldest",
        after: int = 0,
        limit: int = 100,
        user: str | None = None,
    ) -> EpisodePage:
        """Return episodes in order, `oldest` or `newest` first."""
        query = {"conversation": conversation, "order": order, "after": after, "limit": limit, "user": user}
        return await self._http.fetch(EpisodePage, "GET", "banks", bank, "episodes", query=query)

    async def show_episode(self, bank: str, episode: str, *, user: str | None = None) -> EpisodeView:
        return await self._http.fetch(EpisodeView, "GET", "banks", bank, "episodes", episode, query={"user": user})

    async def demote_episode(
        self, bank: str, episode: str, evidence: str, *, reason: str = "", weight: float = 0.3, user: str | None = None
    ) -> StaleChange:
        """Rank an episode lower in searches, once per evidence."""
        body = {"evidence": evidence, "reason": reason, "weight": weight}
        return await self._http.fetch(
            StaleChange, "POST", "banks", bank, "episodes", episode, "stale", body=body, query={"user": user}
        )

    async def restore_episode(self, bank: str, episode: str, evidence: str, *, user: str | None = None) -> StaleChange:
        """Remove the demotion with this evidence."""
        return await self._http.fetch(
            StaleChange, "DELETE", "banks", bank, "episodes", episode, "stale", evidence, query={"user": user}
        )

    async def list_forgotten(self, bank: str, *, user: str | None = None) -> ForgottenEpisodeList:
        """Return what agents have forgotten for their end users, and `restore_forgotten` brings back."""
        return await self._http.fetch(ForgottenEpisodeList, "GET", "banks", bank, "forgotten", query={"user": user})

    async def restore_forgotten(self, bank: str, episode: str, *, user: str | None = None) -> EpisodeView:
        """Restore an episode that an agent has forgotten within the last 7 days."""
        return await self._http.fetch(
            EpisodeView, "POST", "banks", bank, "forgotten", episode, "restore", query={"user": user}
        )

    async def search_bank(
        self,
        bank: str,
        question: str,
        *,
        limit: int = 10,
        conversation: str | None = None,
        speaker: str | None = None,
        kinds: Sequence[str] = (),
        trusts: Sequence[str] = (),
        where: Mapping[str, Any] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        as_of: Time | None = None,
        layers: Sequence[str] = (),
        recency: float = 0.0,
        half_life_days: float = 30.0,
        importance: float = 0.0,
        user: str | None = None,
        also: Sequence[str] = (),
    ) -> HitList:
        """Return episodes and notes, best match first, each with the parts of its score; `also` names further banks."""
        query = {
            "q": question, "limit": limit, "conversation": conversation, "speaker": speaker, "kind": kinds,
            "trust": trusts, "since": since, "until": until, "layer": layers, "recency": recency,
            "half_life_days": half_life_days, "importance": importance, "user": user, "also": also,
            "as_of": as_of, "where": None if where is None else json.dumps(where),
        }  # fmt: skip
        return await self._http.fetch(HitList, "GET", "banks", bank, "search", query=query)

    async def show_context(
        self,
        bank: str,
        question: str | None = None,
        *,
        stable_tokens: int | None = None,
        fitting_tokens: int | None = None,
        where: Mapping[str, Any] | None = None,
        as_of: Time | None = None,
        user: str | None = None,
        also: Sequence[str] = (),
    ) -> ContextView:
        """Return the context that the bank, and the banks in `also`, add to a prompt for this question."""
        query = {
            "q": question, "stable_tokens": stable_tokens, "fitting_tokens": fitting_tokens, "user": user,
            "as_of": as_of, "where": None if where is None else json.dumps(where), "also": also,
        }  # fmt: skip
        return await self._http.fetch(ContextView, "GET", "banks", bank, "context", query=query)

    async def list_blocks(self, bank: str, *, user: str | None = None) -> list[BlockView]:
        return (await self._http.fetch(BlockList, "GET", "banks", bank, "blocks", query={"user": user})).blocks

    async def show_block(self, bank: str, label: str, *, user: str | None = None) -> BlockView:
        return await self._http.fetch(BlockView, "GET", "banks", bank, "blocks", label, query={"user": user})

    async def write_block(
        self,
        bank: str,
        label: str,
        value: str | None = None,
        *,
        description: str | None = None,
        limit: int | None = None,
        pinned: bool | None = None,
        read_only: bool | None = None,
        expected_version: int | None = None,
        why: str = "",
        user: str | None = None,
    ) -> BlockView:
        """Write a version of a block; missing values stay. Raises Conflict if `expected_version` is outdated."""
        body = {
            "value": value, "description": description, "limit": limit, "pinned": pinned, "read_only": read_only,
            "expected_version": expected_version, "why": why,
        }  # fmt: skip
        return await self._http.fetch(BlockView, "PUT", "banks", bank, "blocks", label, body=body, query={"user": user})

    async def delete_block(
        self, bank: str, label: str, *, why: str = "", expected_version: int | None = None, user: str | None = None
    ) -> BlockView:
        """Delete a block; `undo_block` restores it."""
        query = {"why": why, "expected_version": expected_version, "user": user}
        return await self._http.fetch(BlockView, "DELETE", "banks", bank, "blocks", label, query=query)

    async def list_versions(self, bank: str, label: str, *, user: str | None = None) -> list[BlockView]:
        """Return all versions of a block, oldest first."""
        path = ("banks", bank, "blocks", label, "history")
        return await self._http.fetch_all(BlockList, "blocks", *path, query={"user": user})

    async def undo_block(
        self,
        bank: str,
        label: str,
        *,
        to: int | None = None,
        expected_version: int | None = None,
        user: str | None = None,
    ) -> BlockView:
        """Restore the previous version of a block, or the version `to`."""
        body = {"to": to, "expected_version": expected_version}
        return await self._http.fetch(
            BlockView, "POST", "banks", bank, "blocks", label, "undo", body=body, query={"user": user}
        )

    async def restore_blocks(self, bank: str, at: str, *, user: str | None = None) -> list[BlockView]:
        """Restore all blocks to a time and return those that changed."""
        answer = await self._http.fetch(
            BlockList, "POST", "banks", bank, "restore", body={"at": at}, query={"user": user}
        )
        return answer.blocks

    async def export_bank(self, bank: str, *, user: str | None = None) -> AsyncGenerator[bytes]:
        """Yield an export of a bank: JSON Lines, in chunks of any size. The last line has the type `end`."""
        async with aclosing(self._http.chunks("banks", bank, "export", query={"user": user})) as chunks:
            async for chunk in chunks:
                yield chunk

    async def import_lines(self, bank: str, lines: bytes, *, first_line: int = 1) -> ImportedView:
        """Import up to 1,000 lines of an export, all or none; a repeated import adds nothing.

        `first_line` is the number of the first line in the source file, for error messages.
        """
        query = {"first_line": first_line}
        return await self._http.fetch(ImportedView, "POST", "banks", bank, "import", lines=lines, query=query)

    async def list_answers(
        self,
        bank: str,
        *,
        agent: str | None = None,
        after: str | None = None,
        limit: int = 100,
        user: str | None = None,
    ) -> AnswerPage:
        """Return ready answers, optionally only those for an agent; `after` is for the next page."""
        query = {"agent": agent, "after": after, "limit": limit, "user": user}
        return await self._http.fetch(AnswerPage, "GET", "banks", bank, "answers", query=query)

    async def show_answer(self, bank: str, answer: str, *, user: str | None = None) -> AnswerView:
        return await self._http.fetch(AnswerView, "GET", "banks", bank, "answers", answer, query={"user": user})

    async def try_answers(
        self, bank: str, agent: str, question: str, *, end_user: str | None = None, user: str | None = None
    ) -> TestView:
        """Return how a question would be answered, and why; this calls no model and changes nothing."""
        body = {"agent": agent, "question": question, "end_user": end_user}
        return await self._http.fetch(
            TestView, "POST", "banks", bank, "answers", "test", body=body, query={"user": user}
        )

    async def answer_stats(self, bank: str, *, days: int = 14, user: str | None = None) -> AnswerStats:
        """Return how often ready answers were used, right and wasted."""
        return await self._http.fetch(
            AnswerStats, "GET", "banks", bank, "answers", "stats", query={"days": days, "user": user}
        )

    async def drop_answer(self, bank: str, answer: str, *, user: str | None = None) -> None:
        await self._http.call("DELETE", "banks", bank, "answers", answer, query={"user": user})

    async def drop_answers(self, bank: str, *, agent: str | None = None, user: str | None = None) -> DroppedView:
        """Drop all ready answers of a bank, or those of one agent."""
        return await self._http.fetch(
            DroppedView, "DELETE", "banks", bank, "answers", query={"agent": agent, "user": user}
        )
