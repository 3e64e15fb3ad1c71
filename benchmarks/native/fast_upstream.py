"""What fast_upstream.c does, for machines without a C compiler; several times slower."""

import asyncio
import sys
import time
from typing import Final, cast

import uvloop

PER_WRITE: Final = 4
SAID: Final = (
    "Sleep is when nothing is asked of an agent, and so the only time at which it can think for free. Wake it when "
    "somebody speaks to it, and let it sleep again when it has answered. Nobody pays for the time in between."
)
_ANSWER: Final = (
    '{"id":"chatcmpl-bench","object":"chat.completion","created":1760000000,"model":"gpt-4o-mini",'
    '"system_fingerprint":"%d","choices":[{"index":0,"message":{"role":"assistant","content":"' + SAID + '",'
    '"refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":512,"completion_tokens":48,'
    '"total_tokens":560,"prompt_tokens_details":{"cached_tokens":0}}}'
)
_STREAM_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def stream(chunks: int, *, with_usage: bool) -> list[bytes]:
    """Return the writes of a streamed answer."""
    nothing = ',"usage":null' if with_usage else ""
    events = [_event(f'{{"index":0,"delta":{_delta(i)},"finish_reason":{_finish(i, chunks)}}}', nothing)
              for i in range(chunks)]  # fmt: skip
    if with_usage:
        events.append(_event("", ',"usage":{"prompt_tokens":512,"completion_tokens":48,"total_tokens":560}'))
    events.append(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
    events[0] = _STREAM_HEAD + events[0]
    return [b"".join(events[at : at + PER_WRITE]) for at in range(0, len(events), PER_WRITE)]


def _delta(index: int) -> str:
    role = '"role":"assistant",' if index == 0 else ""
    return f'{{{role}"content":"{SAID[index * 9 % 180 :][:9]}"}}'


def _finish(index: int, chunks: int) -> str:
    return '"stop"' if index == chunks - 1 else "null"


def _event(choices: str, usage: str) -> bytes:
    data = (
        '{"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1760000000,"model":"gpt-4o-mini",'
        f'"choices":[{choices}]{usage}}}'
    )
    line = f"data: {data}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(line), line)


class UpstreamConnection(asyncio.Protocol):
    """One connection."""

    def __init__(self, chunks: int) -> None:
        self._streams = {asked: stream(chunks, with_usage=asked) for asked in (False, True)}
        self._heard = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer each whole request."""
        self._heard += data
        while size := _whole(self._heard):
            request, self._heard = self._heard[:size], self._heard[size:]
            for part in self._answer(request):
                assert self._transport is not None
                self._transport.write(part)

    def _answer(self, request: bytes) -> list[bytes]:
        if not request.startswith(b"POST"):
            return [_json(b"{}")]
        asked = request.replace(b": ", b":")
        if b'"stream":true' in asked:
            return self._streams[b'"include_usage":true' in asked]
        return [_json((_ANSWER % time.monotonic_ns()).encode())]


def _json(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def _whole(heard: bytes) -> int:
    """Return the size of the first request, 0 if it is not whole yet."""
    end = heard.find(b"\r\n\r\n")
    if end < 0:
        return 0
    head = heard[:end].lower()
    if b"\r\ntransfer-encoding:" in head:
        last = heard.find(b"\r\n0\r\n\r\n", end)
        return last + 7 if last >= 0 else 0
    at = head.find(b"\r\ncontent-length:")
    size = end + 4 + (int(head[at + 17 :].split(b"\r\n", 1)[0]) if at >= 0 else 0)
    return size if len(heard) >= size else 0


async def serve(chunks: int) -> None:
    """Serve on a free port, print it, and end when stdin does."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: UpstreamConnection(chunks), "127.0.0.1", 0, backlog=8192)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
