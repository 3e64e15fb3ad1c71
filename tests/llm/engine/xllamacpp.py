"""Stands in for the engine where the extra `local` is not installed: the parts of its interface that we use.

The weights are read and must begin as a GGUF file does; the answer to a chat is always the same.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class CommonParams:
    """The settings, as the engine names them."""

    def __init__(self) -> None:
        self.model = SimpleNamespace(path="")
        self.model_alias: set[str] = set()
        self.hostnames = ["127.0.0.1"]
        self.port = 0
        self.n_parallel = -1
        self.n_ctx = 0
        self.ui = True
        self.cpuparams = SimpleNamespace(n_threads=-1, poll=50)
        self.cpuparams_batch = SimpleNamespace(n_threads=-1, poll=50)


class Server:
    """Serves as soon as it is made, and tells where."""

    def __init__(self, params: CommonParams) -> None:
        if not Path(params.model.path).read_bytes().startswith(b"GGUF"):
            raise RuntimeError("Failed to init server, please check the input params.")
        http = ThreadingHTTPServer((params.hostnames[0], params.port), _handler(params))
        threading.Thread(target=http.serve_forever, daemon=True).start()
        self.listening_address = f"http://{params.hostnames[0]}:{http.server_port}"


def _handler(params: CommonParams) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            answer = {"model": next(iter(params.model_alias)), "slots": params.n_parallel}
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...

    return Handler
