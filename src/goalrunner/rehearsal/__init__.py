"""A model that only plays a script, behind a real HTTP server on loopback, for programs that bring their own client.

    with Rehearsal([run("touch done.txt"), say("Done.")]) as server:
        ...  # start a program whose provider is at server.base_url("anthropic")
        assert server.played == 2

It speaks the wire formats of OpenAI (chat and Responses), Anthropic and Gemini, streamed or not.
"""

from __future__ import annotations

from goalrunner.rehearsal.answer import Answer, call, calls, cut, fail, hang, run, say
from goalrunner.rehearsal.pointing import Pointed, pointed
from goalrunner.rehearsal.request import Reply, Request, Tool
from goalrunner.rehearsal.server import Rehearsal
from goalrunner.rehearsal.wires import WireName

__all__ = [
    "Answer",
    "Pointed",
    "Rehearsal",
    "Reply",
    "Request",
    "Tool",
    "WireName",
    "call",
    "calls",
    "cut",
    "fail",
    "hang",
    "pointed",
    "run",
    "say",
]
