"""A small MCP server over standard input and output, with the tools by which children go wrong.

It uses the standard library alone, so that it starts at once. `--no-resources` leaves resources out, `--mute` answers
nothing at all, `--die` ends before the handshake.
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

NAMES = ("echo", "env", "crash", "hang", "stuck", "noise", "long", "steps", "spawn", "fail", "pid", "say", "half")
TOOLS = [{"name": name, "description": f"does {name}", "inputSchema": {"type": "object"}} for name in NAMES]
ODD_TOOLS: list[dict[str, Any]] = [
    {"name": "no-schema", "inputSchema": {}},
    {"name": "list", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}, "ofTomorrow": {"a": None}},
]
"""Tools that not every revision of the protocol has."""
cancelled: set[object] = set()


def write(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def said(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def call(number: object, name: str, given: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any] | None:
    """Return the tool's result, or none if it never answers."""
    if name == "env":
        return said(json.dumps(dict(os.environ)))
    if name == "crash":
        print("goodbye, my key is", os.environ.get("KEY"), file=sys.stderr, flush=True)
        os._exit(13)
    if name == "hang":
        Path(given["mark"]).touch()
        return None
    if name == "stuck":
        Path(given["mark"]).touch()
        time.sleep(3600)
    if name == "noise":
        sys.stdout.write("this is no JSON\n\n[1, 2]\n")
    if name == "long":
        return said("x" * given["length"])
    if name == "steps":
        for step in range(3):
            params = {
                "progressToken": meta.get("progressToken"),
                "progress": step,
                "total": 3,
                "message": f"step {step}",
            }
            write({"method": "notifications/progress", "params": params})
    if name == "spawn":
        child = subprocess.Popen(["sleep", "3600"])
        return said(str(child.pid))
    if name == "fail":
        return {**said("it failed"), "isError": True}
    if name == "say":
        return given["result"]
    if name == "half":
        return said("a thumb \ud83d, \ud83d\udc4d whole, and tail \udc4d")
    if name == "pid":
        return said(json.dumps({"pid": os.getpid(), "cancelled": sorted(map(str, cancelled))}))
    return said(f"{given.get('text', '')}{json.dumps(meta) if given.get('meta') else ''}")


def answer(message: dict[str, Any], resources: bool) -> dict[str, Any] | None:
    """Return what answers the request."""
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        offered: dict[str, Any] = {"tools": {"listChanged": True}, "logging": {}}
        offered |= {"resources": {"subscribe": True}} if resources else {}
        info = {"name": "small", "version": "7"}
        version = params["protocolVersion"]
        told = {"protocolVersion": version, "capabilities": offered, "serverInfo": info, "instructions": "be small"}
        return {"result": told}
    if method == "ping":
        return {"result": {}}
    if method == "tools/list":
        return {"result": {"tools": [*TOOLS, *(ODD_TOOLS if "--odd" in sys.argv else ())]}}
    if method == "tools/call":
        result = call(message["id"], params["name"], params.get("arguments", {}), params.get("_meta", {}))
        return None if result is None else {"result": result}
    if method == "resources/list" and resources:
        return {"result": {"resources": [{"uri": "small://one", "name": "one"}]}}
    if method == "resources/read" and resources:
        return {"result": {"contents": [{"uri": params["uri"], "text": "the one"}]}}
    return {"error": {"code": -32601, "message": f"small does not know {method}"}}


def main() -> None:
    if "--die" in sys.argv:
        sys.exit(3)
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "notifications/cancelled":
            cancelled.add(message["params"]["requestId"])
        if "--mute" in sys.argv or "id" not in message or "method" not in message:
            continue
        found = answer(message, "--no-resources" not in sys.argv)
        if found is not None:
            write({"id": message["id"], **found})
    if "--stays" in sys.argv:
        threading.Event().wait()


if __name__ == "__main__":
    main()
