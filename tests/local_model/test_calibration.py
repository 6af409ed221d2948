"""A small real model as a judge: its error rates are measured end to end, and they are bad."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from goalrunner.audits.kept_verdicts import TranscriptAudit
from tests.local_model.workplace import KEY_VARIABLE, MODEL, Workplace
from tests.support.labelled import write_chat

pytestmark = [pytest.mark.local_model, pytest.mark.timeout(600)]

OUTPUTS = (
    ("3 passed in 0.1s", True),
    ("1 failed, 2 passed in 0.1s", False),
)
"""What the agent's command printed, and whether all tests pass."""


def test_a_real_judge_is_calibrated_from_the_command_line(
    workplace: Workplace, tmp_path: Path
) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("scipy")
    folder = workplace.workspace("samples")
    settings = [
        f'model = "{MODEL}"',
        f'api_base = "{workplace.api_base}"',
        f'api_key_env = "{KEY_VARIABLE}"',
        'system_prompt = "You audit the work of an agent. Cite what proves it."',  # to read the built-in one takes it long
        "params = { max_tokens = 60 }",
    ]
    goal = [
        'objective = "All tests pass."',
        'success_criteria = ["all tests pass"]',
        "[judge]",
        *settings,
    ]
    (folder / "goal.toml").write_text("\n".join(goal))
    rows = []
    for number, (output, label) in enumerate(OUTPUTS):
        write_chat(folder / f"{number}.jsonl", output)
        rows.append({"path": f"{number}.jsonl", "goal": "goal.toml", "label": label})
    (folder / "dataset.jsonl").write_text(
        "".join(f"{json.dumps(row)}\n" for row in rows)
    )
    line = [
        "judge",
        "calibrate",
        "dataset.jsonl",
        "--judge",
        MODEL,
        "--jobs",
        "1",
        "--output",
        "verdicts.jsonl",
    ]
    found = json.loads(
        _ran(
            [*line, "--target-false-accept", "0.01", "--html", "page.html", "--json"],
            folder,
        )
    )
    verdicts = [
        TranscriptAudit.model_validate_json(text)
        for text in (folder / "verdicts.jsonl").read_text().splitlines()
    ]
    assert (found["audits"]["asked"], found["faults"]) == (len(OUTPUTS), [])
    assert len(verdicts) == len(OUTPUTS)
    assert all(
        judged.usage.calls >= 1 and judged.usage.tokens > 500 for judged in verdicts
    )
    (one,) = found["judges"]
    assert one["verdicts"] == len(OUTPUTS)
    assert one["false_accept"]["of"] == one["false_reject"]["of"] == 1
    assert one["unreadable"] == sum(
        judged.result == "judge failed" for judged in verdicts
    )
    accepted = [
        row["label"]
        for row, judged in zip(rows, verdicts, strict=True)
        if judged.result == "complete"
    ]
    assert (one["false_accept"]["count"], 1 - one["false_reject"]["count"]) == (
        accepted.count(False),
        accepted.count(True),
    )
    assert (folder / "page.html").read_text().endswith("</html>\n")
    # The honest numbers of this model; the verdicts are known, so that it is not asked again.
    print(_ran(line, folder))


def _ran(arguments: list[str], folder: Path) -> str:
    """Return the output of a command that ends with 1 if no threshold is low enough."""
    command = [sys.executable, "-m", "goalrunner", *arguments]
    ran = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=550, check=False
    )
    assert ran.returncode in (0, 1), ran.stderr
    return ran.stdout
