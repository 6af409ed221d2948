"""Scripted doubles of the ports, for tests of your own goals, validators and drivers without a model or a disk.

Each plays its script in order and raises ScriptExhausted at its end. goalrunner itself never imports this package.
"""

from __future__ import annotations

from goalrunner.testing.memory import ManualClock, MemoryArtifacts, MemoryLog, MemoryTranscript, RecordingObserver
from goalrunner.testing.scripted import (
    ScriptedApprover,
    ScriptedConversation,
    ScriptedJudge,
    ScriptedRound,
    ScriptedValidator,
    ScriptExhausted,
    satisfied,
    shell_result,
    unsatisfied,
)

__all__ = [
    "ManualClock",
    "MemoryArtifacts",
    "MemoryLog",
    "MemoryTranscript",
    "RecordingObserver",
    "ScriptExhausted",
    "ScriptedApprover",
    "ScriptedConversation",
    "ScriptedJudge",
    "ScriptedRound",
    "ScriptedValidator",
    "satisfied",
    "shell_result",
    "unsatisfied",
]
