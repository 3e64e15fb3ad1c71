"""The request that all benchmarks send: a chat completion of a set size."""

import json

TEXT = "Sleep on it, then answer in one line and name the file that it is about. "


def body(*, streamed: bool, size: int = 2048) -> bytes:
    """Return a chat completion request of exactly `size` bytes: a system message and a user message."""
    system = {"role": "system", "content": "You are one of a team. Answer in one line."}
    user = {"role": "user", "content": ""}
    request: dict[str, object] = {"model": "gpt-4o-mini", "max_tokens": 256, "messages": [system, user]}
    if streamed:
        request["stream"] = True
    missing = size - len(json.dumps(request))
    user["content"] = (TEXT * (missing // len(TEXT) + 1))[:missing]
    return json.dumps(request).encode()


def wire(port: int, path: str, content: bytes, headers: dict[str, str]) -> bytes:
    """Return a POST as it goes over the wire, with the headers that an SDK sends."""
    lines = {
        "Host": f"127.0.0.1:{port}",
        "Accept": "application/json",
        "Accept-Encoding": "gzip, deflate",
        "Connection": "keep-alive",
        "User-Agent": "OpenAI/Python 2.0.0",
        "Content-Type": "application/json",
        "X-Stainless-Lang": "python",
        "X-Stainless-Retry-Count": "0",
        **headers,
        "Content-Length": str(len(content)),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + content
