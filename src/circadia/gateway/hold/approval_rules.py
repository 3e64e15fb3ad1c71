"""Which calls need a person's approval, and what of them people see (WAKE-86).

The digest leaves out what a repeat of the same call changes: whether it streams, and the id of an MCP message. A body
that two programs may read differently is refused, or one call could be approved and another carried out.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final, cast

from circadia.agents.approvals import ApprovalRequest
from circadia.errors import InvalidRequest
from circadia.gateway.accounting.budget import DEFAULT_OUTPUT_TOKENS
from circadia.gateway.calls.upstream import ModelCall
from circadia.memory.redaction import redact
from circadia.records.agent import Agent, AgentPolicy
from circadia.records.approval import ApprovalRule

PREVIEW_CHARACTERS: Final = 4_000
_READ_CHARACTERS: Final = 2 * PREVIEW_CHARACTERS
"""Characters in which secrets are looked for, so that none is cut in two at the end of the preview."""
_NANOUSD: Final = 10**9
_OWN_SERVER: Final = "circadia"
_TOOL_CALL: Final = "tools/call"
_OBJECT: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{")
_STREAMING: Final = frozenset({"stream", "stream_options"})


def _needs_tool_approval(policy: AgentPolicy, server: str, tool: str) -> bool:
    server = server or _OWN_SERVER
    names = policy.approve_tools
    return any(name in names for name in ("*", tool, f"{server}/{tool}", f"{server}/*"))


def _find_model_rule(call: ModelCall, price: int | None) -> ApprovalRule | None:
    """Return why a model call of this highest price (None if unknown) needs approval; None if it needs none."""
    policy, request = call.agent.policy, call.request
    if policy.approve_models:
        named = [*(() if request.model is None else (request.model,)), *request.fallback_models]
        if not named or "*" in policy.approve_models or any(model in policy.approve_models for model in named):
            return ApprovalRule.MODEL
    limit = policy.approve_above_usd
    return ApprovalRule.SPEND if limit is not None and (price is None or price > limit * _NANOUSD) else None


def read_tool_approval(
    agent: Agent, server: str, method: str, body: bytes, *, is_batch: bool
) -> ApprovalRequest | None:
    """Return the approval that a message of an agent with such a policy needs; None if it needs none.

    Raises InvalidRequest if a server could read another call in it.
    """
    if is_batch:
        raise InvalidRequest("the body is a batch, and some tools of this agent need approval; send single messages")
    document = _load_unambiguous(body, {"method", "params"})
    if method != _TOOL_CALL:
        return None
    params = cast("dict[str, Any]", document.get("params"))
    _require_exact(params, {"name", "arguments"})
    tool = str(params.get("name"))
    if not _needs_tool_approval(agent.policy, server, tool):
        return None
    meta = params.get("_meta")
    if isinstance(meta, dict):
        rest = {key: value for key, value in cast("dict[str, Any]", meta).items() if key != "progressToken"}
        params = {key: value for key, value in params.items() if key != "_meta"} | ({"_meta": rest} if rest else {})
    preview, cut = _preview(json.dumps(params.get("arguments", {}), ensure_ascii=False, indent=1))
    return ApprovalRequest(
        agent=agent,
        door="mcp",
        target=server or _OWN_SERVER,
        what=f"{_TOOL_CALL} {tool[:200]}",
        rule=ApprovalRule.TOOL,
        digest=_digest("mcp", server, _TOOL_CALL, _canonical(params)),
        preview=preview,
        cut=cut,
    )


def read_model_approval(call: ModelCall, body: bytes, now: datetime) -> ApprovalRequest | None:
    """Return the approval that a model call of an agent with such a policy needs; None if it needs none.

    Raises InvalidRequest if a provider could read another call in it.
    """
    document = _load_unambiguous(body, {"model", "models"}) if _OBJECT.match(body) else None
    price = _highest_price(call, now)
    rule = _find_model_rule(call, price)
    if rule is None:
        return None
    content = body
    if document is not None:
        content = _canonical({key: value for key, value in document.items() if key not in _STREAMING})
    prompt = call.dialect.prompt(body)
    said = [] if prompt is None else [each.text for each in prompt.heard if each.text.strip()]
    preview, cut = _preview("\n".join(said) or body[-_READ_CHARACTERS:].decode("utf-8", "replace"))
    upstream = call.provider.upstream.name
    return ApprovalRequest(
        agent=call.agent,
        door="model",
        target=upstream,
        what=f"{call.method} {call.target.split('?', 1)[0]}",
        rule=rule,
        digest=_digest("model", upstream, f"{call.method} {call.target}", content),
        preview=preview,
        cut=cut,
        model=(call.request.model or "")[:200],
        nanousd=price,
    )


def _highest_price(call: ModelCall, now: datetime) -> int | None:
    """Return the highest price of the call in billionths of a US dollar; None if its model has no known price."""
    request = call.request
    output = DEFAULT_OUTPUT_TOKENS if request.output_limit is None else request.output_limit
    return call.provider.prices.worst_price(request.model or "", request.input_estimate, output, now)


def _load_unambiguous(body: bytes, read: Collection[str]) -> dict[str, Any]:
    """Parse an object. Raises InvalidRequest if it names a member twice, or one of `read` in other letters."""
    try:
        document: object = json.loads(body, object_pairs_hook=_require_single)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the body is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise InvalidRequest("the body is not a JSON object")
    members = cast("dict[str, Any]", document)
    _require_exact(members, read)
    return members


def _require_single(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise InvalidRequest("the body names a member of an object twice; a call that needs approval must be clear")
    return members


def _require_exact(members: Mapping[str, object], read: Collection[str]) -> None:
    """Refuse names that only some programs take for a member that is read: Go compares them without their case."""
    wrong = next((name for name in members if name not in read and name.casefold() in read), None)
    if wrong is not None:
        raise InvalidRequest(f"the body has the member {wrong!r}; write {wrong.casefold()!r}")


def _canonical(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _digest(*parts: str | bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        whole.update(b"%d:%b" % (len(content), content))
    return whole.hexdigest()


def _preview(text: str) -> tuple[str, bool]:
    """Return the beginning of a text without secrets, as the database stores it, and whether it was cut."""
    start = text[:_READ_CHARACTERS].replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return redact(start)[:PREVIEW_CHARACTERS], len(text) > PREVIEW_CHARACTERS
