"""In a saved chat, the order of the calls says what is outdated."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core.call_order import stale_by_order
from goalrunner.core.chat_trail import trail_of
from goalrunner.core.observation import Observation

CHECK: tuple[str, dict[str, str]] = ("shell", {"command": "pytest -q"})


def shell(line: str) -> tuple[str, dict[str, str]]:
    return "shell", {"command": line}


def chat(
    *calls: tuple[str, dict[str, str]], together: bool = False
) -> list[dict[str, Any]]:
    """Each call in a message of its own, or all in one message."""
    made = [
        {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(given)},
        }
        for number, (name, given) in enumerate(calls)
    ]
    results = [
        {
            "role": "tool",
            "tool_call_id": call["id"],
            "content": f"output of {call['id']}",
        }
        for call in made
    ]
    if together:
        return [{"role": "assistant", "content": "", "tool_calls": made}, *results]
    messages: list[dict[str, Any]] = []
    for call, result in zip(made, results, strict=True):
        messages += [{"role": "assistant", "content": "", "tool_calls": [call]}, result]
    return messages


@pytest.mark.parametrize(
    ("later", "path"),
    [
        (("write_file", {"path": "src/a.py", "content": "x"}), "src/a.py"),
        (
            (
                "str_replace_editor",
                {
                    "command": "str_replace",
                    "path": "a.py",
                    "old_str": "x",
                    "new_str": "y",
                },
            ),
            "a.py",
        ),
        (
            (
                "apply_patch",
                {
                    "input": "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** End Patch"
                },
            ),
            "a.py",
        ),
        (shell("sed -i s/x/y/ a.py"), "a.py"),
        (shell("echo x > notes"), "notes"),
        (shell("python - <<'P'\nopen('src/a.py', 'w').write('x')\nP"), "src/a.py"),
        (shell("python -c \"p = Path('a.py'); p.write_text('')\""), "a.py"),
        (shell("python -c \"Path('a.py').write_bytes(b'')\""), "a.py"),
        (shell("node -e \"fs.writeFileSync('a.js', 'x')\""), "a.js"),
        (shell("cp /tmp/old a.py"), "a.py"),
        (shell("rm -f a.py b.py"), "a.py, b.py"),
        (shell("cd sub && rm a.py"), "a.py"),
        (shell("touch done"), "done"),
        (shell("git checkout -- a.py"), "git checkout"),
        (shell("git stash"), "git stash"),
        (shell("git -C sub reset --hard"), ""),
        (shell("patch -p1 < /tmp/x.diff"), "patch"),
        (shell("git commit -am done"), ""),
        (shell("git status; git diff > /tmp/x"), ""),
        (shell("pytest -q > /tmp/out 2>&1"), ""),
        (shell("echo x > /tmp/work/a.py"), "/tmp/work/a.py"),
        (shell("pytest --cov-report xml > coverage.xml"), ""),
        (shell("cat a.py; ls; grep -rn rm ."), ""),
        (("read_file", {"path": "a.py"}), ""),
    ],
)
def test_a_result_is_outdated_by_a_later_call_that_changes_a_file(
    later: tuple[str, dict[str, str]], path: str
) -> None:
    found = trail_of(chat(CHECK, later)).stale
    assert found == ({"o1": f"{path} changed after o1"} if path else {})
    assert "o2" not in trail_of(chat(later, CHECK)).stale


def test_a_file_tool_depends_on_its_own_file() -> None:
    read = ("read_file", {"path": "src/a.py"})
    write = ("write_file", {"path": "b.py", "content": "x"})
    assert trail_of(chat(read, write)).stale == {}
    assert trail_of(chat(write, read)).stale == {}
    edited = ("write_file", {"path": "/work/src/a.py", "content": "x"})
    assert trail_of(chat(read, write, edited)).stale == {
        "o1": "/work/src/a.py changed after o1"
    }


def test_calls_of_one_message_are_in_their_order() -> None:
    write = ("write_file", {"path": "b.py", "content": "x"})
    assert trail_of(chat(write, CHECK, together=True)).stale == {}
    assert trail_of(chat(CHECK, write, together=True)).stale == {
        "o1": "b.py changed after o1"
    }


def test_a_response_depends_on_no_file() -> None:
    messages = chat(CHECK, shell("touch done"))
    assert trail_of(messages, deliverable="response").stale == {}


def test_a_timestamp_is_a_time_before_the_tools_of_the_message() -> None:
    first, result = chat(CHECK)
    for timestamp, seconds in (
        ("2026-11-27T02:11:10.5Z", 1795745470.5),
        (1795745470.5, 1795745470.5),
    ):
        (item,) = trail_of([{**first, "timestamp": timestamp}, result]).items
        assert item.kind == "observation"
        assert item.started == int(seconds * 1_000) * 1_000_000 - 10_000_000
    others: tuple[object, ...] = ("soon", None, True, -1, 1795745470500, {})
    for wrong in others:
        (item,) = trail_of([{**first, "timestamp": wrong}, result]).items
        assert item.kind == "observation"
        assert item.started is None


CALLS: list[tuple[str, dict[str, str]]] = [
    CHECK,
    shell("cat src/a.py"),
    shell("echo x > src/a.py"),
    shell("git checkout src/b.py"),
    shell("rm src/b.py"),
    ("read_file", {"path": "src/a.py"}),
    ("write_file", {"path": "src/a.py", "content": "x"}),
    ("str_replace_editor", {"command": "view", "path": "src/b.py"}),
    ("str_replace_editor", {"command": "create", "path": "src/b.py"}),
    ("apply_patch", {"input": "*** Begin Patch\n*** Add File: src/c.py\n+x"}),
    ("search", {"query": "x > src/a.py", "kind": "code"}),
]


@given(st.lists(st.sampled_from(CALLS), max_size=6))
def test_the_observations_of_a_run_are_outdated_as_those_of_its_chat(
    calls: list[tuple[str, dict[str, str]]],
) -> None:
    trail = trail_of(chat(*calls))
    assert stale_by_order(trail.items) == trail.stale


def test_the_name_of_a_callable_validator_writes_no_file() -> None:
    calls = [
        ("shell", "pytest"),
        ("validator check", "f.<locals>.check"),
        ("shell", "rm a.py"),
    ]
    items = [
        Observation(id=f"o{number}", source=source, command=command, round=1)
        for number, (source, command) in enumerate(calls, 1)
    ]
    assert stale_by_order(items[:2]) == {}
    assert stale_by_order(items).keys() == {"o1", "o2"}
