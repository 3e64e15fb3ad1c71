"""A model behind OpenAI's API, as a process of its own: `python -m benchmarks.slow_models SECONDS` prints its port.

Each answer takes so long. Questions of passes are answered by the scripted model of the demo, all others with a line.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from circadia.cli.demo.dream_model import reply

ROOT: Final = Path(__file__).parent.parent
ANSWER: Final = "The night shift has it: see the file of the third of May, line twelve."


async def _answer(request: web.Request) -> web.Response:
    asked: dict[str, Any] = await request.json()
    text = reply(asked) if asked.get("response_format") else ANSWER
    await asyncio.sleep(request.app[SECONDS])
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return web.json_response(
        {"id": "x", "object": "chat.completion", "created": 1, "model": asked["model"], "choices": [choice],
         "usage": usage}
    )  # fmt: skip


SECONDS: Final = web.AppKey("seconds", float)


async def _serve(seconds: float) -> None:
    app = web.Application(client_max_size=2**24)
    app[SECONDS] = seconds
    app.router.add_post("/v1/chat/completions", _answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)  # whoever has started it ends it so
    await runner.cleanup()


@contextlib.asynccontextmanager
async def slow_model(seconds: float) -> AsyncGenerator[int]:
    """Run one; yield its port."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.slow_models", str(seconds),
        cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield int(await process.stdout.readline())
    finally:
        process.stdin.close()
        await process.wait()


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1])))
