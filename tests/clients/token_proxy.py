"""Adds an agent's token to the requests of a program that cannot send one."""

import contextlib
from collections.abc import AsyncGenerator

import aiohttp
from aiohttp import web

_OF_THE_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "trailer"})


@contextlib.asynccontextmanager
async def token_proxy(target: str, token: str) -> AsyncGenerator[str]:
    """Yield the base URL of a proxy that passes everything to `target`, Host and Origin included, with the token."""
    async with aiohttp.ClientSession(auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None)) as http:

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            headers = [(k, v) for k, v in request.headers.items() if k.lower() not in _OF_THE_CONNECTION]
            headers.append(("Authorization", f"Bearer {token}"))
            body = await request.read()
            url = target + request.raw_path
            async with http.request(request.method, url, headers=headers, data=body) as answer:
                kept = [(k, v) for k, v in answer.headers.items() if k.lower() not in _OF_THE_CONNECTION]
                response = web.StreamResponse(status=answer.status, headers=dict(kept))
                await response.prepare(request)
                async for part in answer.content.iter_any():
                    await response.write(part)
                await response.write_eof()
                return response

        server = web.Server(handle, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{site.port}"
        finally:
            await runner.cleanup()
