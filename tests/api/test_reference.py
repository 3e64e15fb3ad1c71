"""The page on REST shows what a server answers."""

import asyncio
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from circadia.errors import HTTP_STATUS
from circadia.records.event import EventType
from tests.api.service import ADMIN, Service
from tests.house.tree import REFERENCE, Block, blocks, coded

PAGE = REFERENCE / "rest.md"


@dataclass(frozen=True, kw_only=True)
class Example:
    """A call of curl, and the block that shows what it answers."""

    block: Block
    method: str
    path: str
    headers: dict[str, str]
    data: str | None
    shown: Block | None


def examples() -> Iterator[Example]:
    found = list(blocks(PAGE))
    for block, following in zip(found, [*found[1:], None], strict=True):
        if block.language == "sh" and block.body.startswith("curl"):
            shown = following if following is not None and following.language in {"json", "text"} else None
            yield _example(block, shown)


def _example(block: Block, shown: Block | None) -> Example:
    words = shlex.split(block.body.replace("$AUTH", f"Authorization: Bearer {ADMIN}").replace("$API", "/api/v1"))
    method, path, data = None, "", None
    headers: dict[str, str] = {}
    rest = iter(words[1:])
    for word in rest:
        match word:
            case "-X":
                method = next(rest)
            case "-H":
                name, _, value = next(rest).partition(": ")
                headers[name] = value
            case "-d":
                data = next(rest)
            case "-N":
                pass
            case _:
                path = word
    method = method or ("GET" if data is None else "POST")
    return Example(block=block, method=method, path=path, headers=headers, data=data, shown=shown)


def alike(shown: Any, seen: Any) -> bool:
    """Return whether both have the same keys and the same values, but for what each run makes anew."""
    if isinstance(shown, dict) and isinstance(seen, dict):
        one, other = cast("dict[str, Any]", shown), cast("dict[str, Any]", seen)
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(shown, list) and isinstance(seen, list):
        ones, others = cast("list[Any]", shown), cast("list[Any]", seen)
        return len(ones) == len(others) and all(map(alike, ones, others))
    if isinstance(shown, str) and isinstance(seen, str):
        return shown == seen or _made(shown) == _made(seen) != ""
    return shown == seen


def _made(text: str) -> str:
    """Return what kind of made value it is: an id, a token or a time."""
    ids = r"(ses|agt|thr|msg|wak|pls|bnk|epi|pas|drm|direct_ses|support-dream)[_-][0-9a-z_-]+"
    kinds = ids + r"|(circadia-(?:agent|viewer))-.+|(/ui/enter\?code=).+|(20)\d\d-\d\d-\d\dT[\d:.]+Z"
    match = re.fullmatch(kinds, text)
    return next((kind for kind in match.groups() if kind), "") if match else ""


async def test_each_example_of_the_page_answers_what_is_shown(service: Service) -> None:
    ran = 0
    for example in examples():
        url = service.url + example.path
        async with service.http.request(example.method, url, data=example.data, headers=example.headers) as answer:
            if answer.content_type == "text/event-stream":
                assert example.shown is not None
                lines = example.shown.body.splitlines()
                seen = [(await asyncio.wait_for(answer.content.readline(), 60)).decode().rstrip() for _ in lines]
                assert [line.partition('"at"')[0] for line in seen] == [line.partition('"at"')[0] for line in lines]
                continue
            text = await answer.text()
        assert answer.status < 300 or '"code"' in str(example.shown and example.shown.body), (example.block, text)
        if example.shown is None:
            assert answer.status == 204, example.block
        else:
            assert alike(json.loads(example.shown.body), json.loads(text)), f"{example.block}\n{text}"
        ran += 1
    assert ran > 20


def test_the_page_names_each_error_that_rest_can_answer() -> None:
    named = set(coded(PAGE.read_text("utf-8")))
    gateway = {"still_asleep", "upstream_failed", "upstream_timed_out", "config_error", "start_error", "unreachable"}
    assert {kind.code for kind in HTTP_STATUS} - gateway <= named


def test_the_page_names_each_type_of_event() -> None:
    assert set(EventType) <= set(coded(PAGE.read_text("utf-8")))
