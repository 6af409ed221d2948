"""A server of the Model Context Protocol on stdin and stdout with one tool, `add`, for real agents in tests."""

from __future__ import annotations

import json
import sys
from typing import Any

NUMBERS = {name: {"type": "number"} for name in ("a", "b")}
ADD = {
    "name": "add",
    "description": "Add two numbers.",
    "inputSchema": {
        "type": "object",
        "properties": NUMBERS,
        "required": list(NUMBERS),
    },
    "annotations": {"readOnlyHint": True},
}


def answer(method: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request."""
    match method:
        case "initialize":
            return {
                "protocolVersion": given["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "calc", "version": "1"},
            }
        case "tools/list":
            return {"tools": [ADD]}
        case "tools/call":
            total = sum(given["arguments"].values())
            return {"content": [{"type": "text", "text": str(total)}]}
    return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request["method"], request.get("params", {}))
        reply = {"jsonrpc": "2.0", "id": request["id"], "result": result}
        print(json.dumps(reply), flush=True)
