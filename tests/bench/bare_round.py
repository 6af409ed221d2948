"""The work of a round without driver, recorder and checks. A program of its own: prints seconds a round.

    python bare_round.py BASE_URL ROUNDS SHELL VALIDATOR [REQUESTS]

A round is the two commands and three calls of LiteLLM. REQUESTS is a JSON list of the bodies that a run sent: these very
requests are made then - the same chat, the same tools, streaming as they did; else the shortest calls that there are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.update(
    LITELLM_LOCAL_MODEL_COST_MAP="True",
    LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS="true",
    LITELLM_MODE="PRODUCTION",
)

CALLS = 3
WARMING = 2
"""Rounds that do not count."""

_CHAT = [
    {"role": "system", "content": "You write notes."},
    {"role": "user", "content": "Write notes."},
]


def main(
    base: str, rounds: int, commands: list[str], bodies: list[dict[str, Any]]
) -> float:
    """Do the rounds; gives seconds a round."""
    import litellm

    litellm.disable_aiohttp_transport = True  # as in a run

    def a_round(number: int) -> None:
        for call in range(CALLS):
            body = bodies[(number * CALLS + call) % len(bodies)]
            model = f"openai/{body['model']}"
            answer = litellm.completion(
                **{**body, "model": model}, api_base=base, api_key="none"
            )
            if body.get("stream"):
                for _ in answer:
                    pass
        for command in commands:
            subprocess.run(["sh", "-c", command], check=True, capture_output=True)

    for number in range(-WARMING, 0):
        a_round(number)
    began = time.perf_counter()
    for number in range(rounds):
        a_round(number)
    return (time.perf_counter() - began) / rounds


if __name__ == "__main__":
    plain = [
        {"model": model, "messages": _CHAT} for model in ("agent", "agent", "judge")
    ]
    requests = json.loads(Path(sys.argv[5]).read_text()) if len(sys.argv) > 5 else plain
    print(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:5], requests))
