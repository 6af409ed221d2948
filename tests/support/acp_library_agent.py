"""An agent made with the protocol's own Python library: it checks what it is sent against the schema.

`python acp_library_agent.py`: asks for leave, runs a command, tells of it, and reports what it used. A prompt that holds
"wait" is worked on until it is cancelled.
"""

from __future__ import annotations

import asyncio
from typing import Any

import acp
from acp import helpers, schema


class LibraryAgent:
    def __init__(self) -> None:
        self.cancelled = asyncio.Event()
        self.client: Any = None

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(
        self, protocol_version: int, **_: Any
    ) -> schema.InitializeResponse:
        can = schema.AgentCapabilities(load_session=True)
        return schema.InitializeResponse(
            protocol_version=protocol_version, agent_capabilities=can
        )

    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        return schema.NewSessionResponse(session_id="library-session")

    async def load_session(
        self, cwd: str, session_id: str, **_: Any
    ) -> schema.LoadSessionResponse:
        await self.client.session_update(
            session_id, helpers.update_agent_message_text("replayed")
        )
        return schema.LoadSessionResponse()

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.cancelled.set()

    async def prompt(
        self, session_id: str, prompt: list[Any], **_: Any
    ) -> schema.PromptResponse:
        text = "".join(block.text for block in prompt)
        await self.client.session_update(
            session_id, helpers.update_agent_message_text(f"heard {text}")
        )
        if "wait" in text:
            await self.cancelled.wait()
            return schema.PromptResponse(stop_reason="cancelled")
        call = schema.ToolCallUpdate(
            tool_call_id="c1", kind="execute", title="`true`", status="pending"
        )
        options = [
            schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
            schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
        ]
        answer = await self.client.request_permission(
            session_id=session_id, tool_call=call, options=options
        )
        allowed = getattr(answer.outcome, "option_id", "") == "yes"
        done = helpers.update_tool_call(
            "c1",
            status="completed" if allowed else "failed",
            raw_output={"exit_code": 0},
        )
        await self.client.session_update(session_id, done)
        usage = schema.Usage(total_tokens=12, input_tokens=10, output_tokens=2)
        return schema.PromptResponse(stop_reason="end_turn", usage=usage)


if __name__ == "__main__":
    agent: Any = LibraryAgent()
    asyncio.run(acp.run_agent(agent))
