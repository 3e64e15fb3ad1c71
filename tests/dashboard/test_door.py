"""The door `/ui`: how the dashboard is opened, served, and missing."""

import aiohttp
import pytest
from yarl import URL

from tests.cli.terminal import run
from tests.dashboard.conftest import BUILT, Site
from tests.fixtures.server_process import ADMIN_TOKEN

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.spec("UI-01")
async def test_the_start_names_the_address_and_circadia_ui_opens_it_signed_in(site: Site) -> None:
    assert f"Dashboard: {site.server.url}/ui" in site.server.log
    result = await run("ui", "--no-browser", "--url", site.server.url, "--token", ADMIN_TOKEN)
    assert result.status == 0, result.err
    async with site.open(token=None) as page:
        await page.goto(result.out.strip())
        await page.get_by_role("heading", name="Overview").wait_for()
        assert page.url == f"{site.server.url}/ui/"


@pytest.mark.spec("UI-01", "UI-02")
async def test_pages_are_served_afresh_files_for_ever_and_all_under_a_strict_policy(site: Site) -> None:
    (script,) = (BUILT / "assets").glob("index-*.js")
    async with aiohttp.ClientSession() as http:

        async def fetch(path: str, method: str = "GET") -> tuple[int, aiohttp.ClientResponse]:
            url = URL(f"{site.server.url}/ui{path}", encoded=True)  # as it stands: no library resolves its dots
            async with http.request(method, url, allow_redirects=False) as answer:
                await answer.read()
                return answer.status, answer

        for path in ("/", "/agents/ann", "/no/such/page", "/../../etc/passwd", "/%2e%2e/%2e%2e/pyproject.toml"):
            status, answer = await fetch(path)
            assert (status, answer.content_type, answer.headers["cache-control"]) == (200, "text/html", "no-cache"), (
                path
            )
            policy = answer.headers["content-security-policy"]
            assert "script-src 'self';" in policy
            assert "frame-ancestors 'none'" in policy
        status, answer = await fetch(f"/assets/{script.name}")
        assert (status, answer.headers["content-encoding"]) == (200, "gzip")
        assert "immutable" in answer.headers["cache-control"]
        assert (await fetch("/assets/index-gone.js"))[0] == 404
        assert (await fetch("/agents", "POST"))[0] == 405
        assert (await fetch(""))[1].headers["location"] == "/ui/"
