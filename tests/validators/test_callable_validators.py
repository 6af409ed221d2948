"""Callables passed to the library."""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from goalrunner.core.ports import Validator
from goalrunner.core.verdict import ValidationOutcome, ValidatorResult
from goalrunner.validators.python_validators import CallableValidator
from tests.support.agents import validation


async def check(
    tmp_path: Path, function: Callable[..., Any], **more: Any
) -> ValidatorResult:
    validator: Validator = CallableValidator(function, **more)
    result, output = await validator.validate(
        validation(tmp_path, tmp_path, response="three short words")
    )
    assert output is None
    return result


def word_count(response: dict[str, Any], agent: Any) -> Any:
    text = " ".join(block["text"] for block in response["content"] if "text" in block)
    words = len(text.split())
    return (
        True
        if words <= 2
        else {"passed": False, "feedback": f"Too long ({words} words). Cap at 2."}
    )


async def test_a_callable_gets_response_and_agent(tmp_path: Path) -> None:
    result = await check(tmp_path, word_count)
    assert (result.passed, result.reason) == (False, "red")
    assert (result.feedback, result.summary) == ("Too long (3 words). Cap at 2.",) * 2
    assert (result.name, result.command) == ("word_count", f"{__name__}:word_count")
    seen: list[Any] = []
    result = await check(
        tmp_path, lambda *arguments: isinstance(seen.__iadd__([arguments]), list)
    )
    assert (result.passed, result.reason, result.summary, result.name) == (
        True,
        "passed",
        "passed",
        "validator",
    )
    response, messages = seen[0][0], seen[0][1].messages
    assert response == {"role": "assistant", "content": [{"text": "three short words"}]}
    assert messages[1]["content"] == "three short words"


async def test_async_callables_are_awaited_in_every_form(tmp_path: Path) -> None:
    async def fine(response: Any, agent: Any) -> ValidationOutcome:
        await asyncio.sleep(0)
        return ValidationOutcome(passed=True, feedback="Well done.")

    class Fine:
        async def __call__(self, response: Any, agent: Any) -> bool:
            return True

    assert (await check(tmp_path, fine)).feedback == "Well done."
    assert (await check(tmp_path, functools.partial(fine))).passed
    assert (await check(tmp_path, Fine())).passed
    assert (await check(tmp_path, lambda response, agent: fine(response, agent))).passed


def crash(response: Any, agent: Any) -> bool:
    raise ValueError("no such column")


async def async_crash(response: Any, agent: Any) -> bool:
    raise ValueError("no such column")


@pytest.mark.parametrize("function", [crash, async_crash])
async def test_an_exception_is_red_with_its_traceback(
    tmp_path: Path, function: Callable[..., Any]
) -> None:
    result = await check(tmp_path, function)
    assert (result.passed, result.reason, result.summary) == (
        False,
        "crashed",
        "ValueError: no such column",
    )
    lines = result.feedback.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    # The folders of this machine do not go to a model.
    assert lines[1].startswith('  File "test_callable_validators.py", line ')
    assert lines[-1] == "ValueError: no such column"


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(0),
        asyncio.CancelledError(),
        TimeoutError("mine"),
        StopIteration(),
        RecursionError(),
    ],
)
async def test_whatever_is_raised_is_red(tmp_path: Path, error: BaseException) -> None:
    def function(response: Any, agent: Any) -> bool:
        raise error

    result = await check(tmp_path, function)
    assert (result.passed, result.reason) == (False, "crashed")


async def test_wrong_arguments_are_red(tmp_path: Path) -> None:
    result = await check(tmp_path, lambda response, agent, more: True)
    assert (result.passed, result.reason) == (False, "crashed")
    assert result.summary.startswith("TypeError: ")


async def test_a_keyboard_interrupt_passes_through(tmp_path: Path) -> None:
    def function(response: Any, agent: Any) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await check(tmp_path, function)


@pytest.mark.skipif(
    sys.platform == "win32", reason="the deadline is the same, the thread is not"
)
async def test_a_deadline_cuts_the_wait_for_a_thread(tmp_path: Path) -> None:
    release = threading.Event()
    began = time.monotonic()
    result = await check(
        tmp_path, lambda response, agent: release.wait(30), timeout=0.1
    )
    assert (result.passed, result.reason, result.summary) == (
        False,
        "timeout",
        "timed out after 0.1 s",
    )
    assert time.monotonic() - began < 3
    release.set()


async def test_a_deadline_cuts_a_coroutine(tmp_path: Path) -> None:
    async def slow(response: Any, agent: Any) -> bool:
        await asyncio.sleep(30)
        return True

    assert (await check(tmp_path, slow, timeout=0.05)).reason == "timeout"


async def test_cancellation_passes_through(tmp_path: Path) -> None:
    release = threading.Event()
    task = asyncio.create_task(
        check(tmp_path, lambda response, agent: release.wait(30))
    )
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()


async def test_an_object_that_raises_when_it_is_looked_at_is_red(
    tmp_path: Path,
) -> None:
    class Nasty(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            raise RuntimeError("do not look")

    result = await check(tmp_path, lambda response, agent: Nasty(passed=True))
    assert (result.passed, result.reason) == (False, "crashed")


async def test_a_very_long_feedback_is_bounded(tmp_path: Path) -> None:
    result = await check(
        tmp_path, lambda response, agent: {"passed": False, "feedback": "x" * 1_000_000}
    )
    assert len(result.feedback) < 17_000
    assert "[... 984,000 characters left out ...]" in result.feedback


async def test_half_a_character_in_the_feedback_does_not_lose_the_reason(
    tmp_path: Path,
) -> None:
    result = await check(
        tmp_path,
        lambda response, agent: {"passed": False, "feedback": "bad \ud800 name"},
    )
    assert (result.reason, result.summary) == ("red", "bad ? name")
