"""A program that a webhook launcher starts agents in: `python receiver.py [PORT]`.

    launchers: {runner: {kind: webhook, url: "http://127.0.0.1:8080/pulses", secret_env: WEBHOOK_SECRET,
               allowed_networks: [127.0.0.0/8]}}
    agents: {helper: {coordination: {launcher: runner}}}

It checks each request's signature with the secret in `WEBHOOK_SECRET`, runs each pulse once, and answers when the run
has ended. A pulse that is to stop is cancelled.
"""

import asyncio
import os
import sys
from typing import Any

from aiohttp import web
from openai import AsyncOpenAI

from circadia.client.webhooks import WebhookReceiver
from circadia.errors import InvalidRequest, Unauthenticated

MODEL = os.environ.get("AGENT_MODEL", "gpt-5-mini")


async def work(pulse: dict[str, Any]) -> str:
    """Do what the pulse is for, with its own token, through the gateway."""
    environment = pulse["environment"]
    base_url, key = environment["OPENAI_BASE_URL"], environment["OPENAI_API_KEY"]
    async with AsyncOpenAI(base_url=base_url, api_key=key) as client:
        answer = await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": pulse["prompt"]}]
        )
    return answer.choices[0].message.content or ""


class Pulses:
    """The pulses that run here."""

    def __init__(self, receiver: WebhookReceiver) -> None:
        self._receiver = receiver
        self._running: dict[tuple[str, int], asyncio.Task[str]] = {}

    async def handle(self, request: web.Request) -> web.Response:
        """Start or stop a pulse."""
        body = await request.read()
        try:
            said = self._receiver.verify(request.headers, body)
        except Unauthenticated as error:
            return web.Response(status=401, text=error.message)
        except InvalidRequest as error:
            return web.Response(status=400, text=error.message)
        if said["type"] == "pulse.stop":
            for (pulse, epoch), task in self._running.items():
                if pulse == said["pulse"] and epoch < said["below_epoch"]:
                    task.cancel()
            return web.Response(status=204)
        if not self._receiver.take(request.headers):
            return web.Response(status=409, text="this pulse was taken before")
        return await self._run(said)

    async def _run(self, pulse: dict[str, Any]) -> web.Response:
        task = asyncio.create_task(work(pulse))
        key = (pulse["pulse"], pulse["epoch"])
        self._running[key] = task
        try:
            await asyncio.wait((task,))
        finally:
            self._running.pop(key).cancel()  # the caller has gone: so has the pulse
        if task.cancelled() or task.exception() is not None:
            reason = "stopped" if task.cancelled() else repr(task.exception())
            return web.json_response({"status": "failed", "detail": reason})
        return web.json_response({"status": "succeeded", "detail": task.result()})


def main() -> None:
    """Serve until stopped."""
    app = web.Application(client_max_size=8 * 2**20)
    app.router.add_post("/pulses", Pulses(WebhookReceiver(os.environ["WEBHOOK_SECRET"])).handle)
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8080
    web.run_app(app, host="127.0.0.1", port=port, handler_cancellation=True, print=None)


if __name__ == "__main__":
    main()
