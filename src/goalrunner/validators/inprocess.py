"""A callable passed to the library as a check, in this process. Owns the call, its deadline and the reading of its answer."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from goalrunner.model.goal import DEFAULT_VALIDATOR_TIMEOUT
from goalrunner.model.validation import ValidatorResult
from goalrunner.ports import ValidationContext
from goalrunner.process.thread import in_thread
from goalrunner.validators.child import last_lines, outcome_of, refusal_of
from goalrunner.validators.feedback import bounded
from goalrunner.validators.red import Reason
from goalrunner.validators.response import response_message


class CallableValidator:
    """Calls `function(response, agent)`; `agent` is the conversation, with `messages`. Implements the port `Validator`.

    A plain function runs in a thread, so that the deadline (seconds; None: no limit) can cut the wait for it; a coroutine
    function runs in the loop and must not block it. Exceptions are red; KeyboardInterrupt and cancellation pass.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str | None = None,
        *,
        timeout: float | None = DEFAULT_VALIDATOR_TIMEOUT,
        serial: bool = False,
        hidden: bool = False,
    ) -> None:
        self._function = function
        self._timeout = timeout
        self._serial = serial
        self._hidden = hidden
        given = getattr(function, "__name__", type(function).__name__)
        self._name = name or (given if given != "<lambda>" else "validator")

    @property
    def name(self) -> str:
        """The name it was given, or the function's."""
        return self._name

    @property
    def command(self) -> str:
        """`module:function`."""
        owner = getattr(self._function, "__module__", None) or "?"
        return f"{owner}:{getattr(self._function, '__qualname__', self._name)}"

    @property
    def hidden(self) -> bool:
        """Whether it runs at the proof alone."""
        return self._hidden

    @property
    def serial(self) -> bool:
        """Whether it must never run beside another."""
        return self._serial

    async def validate(self, context: ValidationContext) -> tuple[ValidatorResult, Path | None]:
        """Call it once; the feedback is all there is of its output."""
        began = time.monotonic()
        result = await self._decided(context)
        return result.model_copy(update={"duration": time.monotonic() - began, "hidden": self._hidden}), None

    async def _decided(self, context: ValidationContext) -> ValidatorResult:
        deadline = asyncio.timeout(self._timeout)
        try:
            async with deadline:
                return self._read(await self._call(context))
        except TimeoutError as error:
            if deadline.expired():
                return self._red("timeout", f"timed out after {self._timeout:g} s", "")
            return self._crashed(error)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancelled this run: the callable raised it of its own accord.
            return self._crashed(error)
        except (Exception, SystemExit) as error:
            return self._crashed(error)

    async def _call(self, context: ValidationContext) -> Any:
        arguments = (response_message(context.response), context.conversation)
        if inspect.iscoroutinefunction(self._function):
            return await self._function(*arguments)
        value = await in_thread(self._function, *arguments)
        return await value if inspect.isawaitable(value) else value

    def _read(self, value: object) -> ValidatorResult:
        outcome = outcome_of(value)
        if outcome is None:
            refusal = refusal_of(value)
            return self._red("invalid_result", refusal, refusal)
        passed, feedback = outcome[0], bounded(outcome[1])
        if not passed:
            return self._red("red", (feedback.strip().splitlines() or ["not passed"])[0], feedback)
        return ValidatorResult(
            name=self.name, passed=True, reason="passed", feedback=feedback, summary="passed", command=self.command
        )

    def _crashed(self, error: BaseException) -> ValidatorResult:
        text = last_lines(error)
        return self._red("crashed", text.splitlines()[-1], text)

    def _red(self, reason: Reason, summary: str, feedback: str) -> ValidatorResult:
        line = " ".join(summary.split())[:200]
        return ValidatorResult(
            name=self.name, passed=False, reason=reason, feedback=feedback, summary=line, command=self.command
        )
