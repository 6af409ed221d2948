"""Recorded replies as answers of the scripted model server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.fake_provider import Answer, fail


def read_answers(path: Path) -> dict[str, list[Answer]]:
    """Answers by model name from a file of recorded replies; lines without an account are under ""."""
    from goalrunner.llm.outside import read_script

    answers: dict[str, list[Answer]] = {}
    for line in read_script(path):
        answers.setdefault(line.account or "", []).append(_answer(line))
    return answers


def _answer(line: Any) -> Answer:
    error = line.error
    if error is not None and not error.cut:
        return fail(error.status or 408, error.message, retry_after=error.retry_after, delay=line.delay)
    return Answer(
        text=line.text,
        tool_calls=tuple((tool_call.name, tool_call.text) for tool_call in line.tool_calls),
        usage=(line.usage.input_tokens, line.usage.output_tokens),
        finish_reason=line.finish_reason or ("tool_calls" if line.tool_calls else "stop"),
        delay=line.delay,
        cut="abrupt" if error is not None else "",
    )
