"""An ASGI application that is loaded with its first request: its libraries take memory that many servers never need."""

import asyncio
import importlib
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

AppOpener = Callable[[], AbstractAsyncContextManager[ASGIApp]]


class LateApp:
    """Takes the place of an application; it serves inside `run`.

    The function `load` of `module` runs in a thread after the import of the module. It takes the `context`, and returns
    what opens the application in the event loop.
    """

    def __init__(self, module: str, load: str, context: object) -> None:
        self._module = module
        self._load = load
        self._context = context
        self._stack = AsyncExitStack()
        self._opening: asyncio.Task[ASGIApp] | None = None
        """Goes on when the request that came first is cancelled."""

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Serve requests within the block; can be used only once."""
        async with self._stack:
            try:
                yield
            finally:
                if self._opening is not None:
                    self._opening.cancel()
                    await asyncio.gather(self._opening, return_exceptions=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
            self._opening = asyncio.create_task(self._open())
        app = await asyncio.shield(self._opening)
        await app(scope, receive, send)

    async def _open(self) -> ASGIApp:
        return await self._stack.enter_async_context((await asyncio.to_thread(self._import))())

    def _import(self) -> AppOpener:
        module: Any = importlib.import_module(self._module)
        opener: AppOpener = getattr(module, self._load)(self._context)
        return opener
