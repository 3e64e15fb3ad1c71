"""Signing in to the dashboard: a cookie in place of the token, at any server, until the token is revoked."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.fixtures.leap_clock import LeapClock
from tests.interaction.live import ADMIN, Live, live
from tests.interaction.test_access_tokens import grant

pytestmark = pytest.mark.spec("UI-02")


async def sign_in(at: Live, token: str, *, headers: dict[str, str] | None = None) -> tuple[int, str]:
    """Sign in; return the status and the header with the cookie."""
    async with at.http.post(f"{at.url}/ui/session", json={"token": token}, headers=headers) as answer:
        return answer.status, answer.headers.get("set-cookie", "")


async def act(at: Live, method: str, path: str, cookie: str, origin: str | None = None) -> int:
    """Send a request as a page does; return the status of its answer."""
    headers = {"cookie": cookie.partition(";")[0], **({} if origin is None else {"origin": origin})}
    async with at.http.request(method, at.url + path, headers=headers, json={}) as answer:
        return answer.status


async def test_a_cookie_stands_for_the_token_at_the_api_and_nowhere_else(tmp_path: Path) -> None:
    async with live(tmp_path) as at:
        status, cookie = await sign_in(at, await grant(at, "olga", "operator"))
        assert status == 200
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
        assert "Secure" not in cookie
        assert "Secure" in (await sign_in(at, ADMIN, headers={"x-forwarded-proto": "https"}))[1]
        assert await act(at, "GET", "/api/v1/sessions", cookie) == 200
        assert await act(at, "POST", "/api/v1/sessions", cookie, at.url) == 201
        for origin in (None, "http://evil.example", "null", at.url.replace("127.0.0.1", "localhost")):
            assert await act(at, "POST", "/api/v1/sessions", cookie, origin) == 403, origin
        assert await act(at, "POST", "/llm/openai/v1/chat/completions", cookie, at.url) == 401
        assert await act(at, "POST", "/mcp", cookie, at.url) == 401
        name, _, value = cookie.partition(";")[0].partition("=")
        for wrong in (value[:-2], "", "a.b", "x" * 5000, f"operator.{2**40}.x", f"{value}0"):
            assert await act(at, "GET", "/api/v1/sessions", f"{name}={wrong}") == 401, wrong
        assert await act(at, "GET", "/api/v1/sessions", "circadia-0=x") == 401


@pytest.mark.parametrize(
    "other", ['prefs={"a":1}', "flag", "x=a b", "path=/", "x=\xfc", 'x="abc', ";;", "circadia-0=x"]
)
async def test_cookies_of_other_programs_on_the_host_lock_nobody_out(tmp_path: Path, other: str) -> None:
    async with live(tmp_path) as at:
        cookie = (await sign_in(at, ADMIN))[1].partition(";")[0]
        for sent in ([f"{other}; {cookie}"], [f"{cookie}; {other}"], [other, cookie]):
            headers = [("cookie", value) for value in sent]
            async with at.http.get(f"{at.url}/api/v1/me", headers=headers) as answer:
                assert answer.status == 200, sent


async def test_it_ends_with_the_token_and_after_a_week(tmp_path: Path) -> None:
    clock = LeapClock()
    async with live(tmp_path, clock=clock) as at:
        cookies = [(await sign_in(at, token))[1] for token in (ADMIN, await grant(at, "vic", "viewer"))]
        assert [await act(at, "GET", "/api/v1/me", cookie) for cookie in cookies] == [200, 200]
        assert await act(at, "POST", "/api/v1/sessions", cookies[1], at.url) == 403
        await at.rest("DELETE", "/tokens/vic")
        assert [await act(at, "GET", "/api/v1/me", cookie) for cookie in cookies] == [200, 401]
        clock.leap(7 * 86_400 - 60)
        assert await act(at, "GET", "/api/v1/me", cookies[0]) == 200
        clock.leap(120)
        assert await act(at, "GET", "/api/v1/me", cookies[0]) == 401


async def test_no_token_but_a_persons_signs_in_and_failures_are_limited(tmp_path: Path) -> None:
    async with live(tmp_path, limits={"max_failed_tokens_per_minute": 3}) as at:
        assert (await sign_in(at, await at.agent()))[0] == 403
        async with at.http.post(f"{at.url}/ui/session", data=b"{") as answer:
            assert answer.status == 422
            assert "must be JSON" in await answer.text()
        assert [(await sign_in(at, "wrong"))[0] for _ in range(5)] == [401, 401, 401, 429, 429]
        assert (await sign_in(at, ADMIN))[0] == 200


async def test_another_server_takes_the_cookie_and_a_link_works_once_at_one_of_them(
    tmp_path: Path, postgres_url: str
) -> None:
    shared: dict[str, Any] = {"server": {"database_url": postgres_url}}
    async with live(tmp_path / "one", **shared) as one, live(tmp_path / "two", **shared) as two:
        viewer = await grant(one, "vic", "viewer")
        _, cookie = await sign_in(one, viewer)
        assert await act(two, "GET", "/api/v1/sessions", cookie) == 200
        path = (await one.rest("POST", "/me/links", token=viewer))[1]["path"]

        async def follow(at: Live) -> tuple[int, str]:
            async with at.http.get(at.url + path, allow_redirects=False) as answer:
                return answer.status, answer.headers.get("set-cookie", "")

        answers = await asyncio.gather(follow(one), follow(two), follow(two))
        assert sorted(status for status, _ in answers) == [303, 401, 401]
        entered = next(header for status, header in answers if status == 303)
        assert await act(one, "GET", "/api/v1/me", entered) == 200
        assert (await one.rest("POST", "/me/links", token=await one.agent()))[0] == 403


async def test_a_link_lasts_a_minute_and_signing_out_takes_the_cookie_away(tmp_path: Path) -> None:
    clock = LeapClock()
    async with (
        live(tmp_path, clock=clock) as at,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as page,
    ):
        path = (await at.rest("POST", "/me/links"))[1]["path"]
        clock.leap(61)
        async with page.get(at.url + path, allow_redirects=False) as answer:
            assert answer.status == 401
        path = (await at.rest("POST", "/me/links", token=await grant(at, "vic", "viewer")))[1]["path"]
        async with page.head(at.url + path) as answer:  # of a program that looks at links
            assert answer.status == 405
        await at.rest("DELETE", "/tokens/vic")
        async with page.get(at.url + path, allow_redirects=False) as answer:
            assert answer.status == 401
        async with page.post(f"{at.url}/ui/session", json={"token": ADMIN}) as answer:
            assert answer.status == 200
        async with page.get(f"{at.url}/api/v1/me") as answer:
            assert await answer.json() == {"name": "operator", "role": "operator"}
        async with page.delete(f"{at.url}/ui/session") as answer:
            assert answer.status == 204
        async with page.get(f"{at.url}/api/v1/me") as answer:
            assert answer.status == 401


@pytest.mark.spec("UI-01")
async def test_without_the_built_files_the_door_says_how_to_build_them_and_all_else_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("circadia.server.dashboard.BUILT_FILES", tmp_path / "missing")
    async with live(tmp_path) as at:
        async with at.http.get(f"{at.url}/ui/") as answer:
            assert answer.status == 404
            assert "make dashboard" in await answer.text()
        assert (await sign_in(at, ADMIN))[0] == 200
        assert (await at.answered(await at.agent()))[0] == 200
