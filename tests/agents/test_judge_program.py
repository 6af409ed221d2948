"""An agent's program as a model: its calls, its answers, its failures, and the files that it reads."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from goalrunner.agents.builtin_agents import preset_of
from goalrunner.agents.external_agents import BUILT_IN
from goalrunner.agents.judge_program import ProgramModel
from goalrunner.agents.program_answer import read_answer
from goalrunner.agents.program_call import ProgramChoice, prompt_of
from goalrunner.agents.program_files import watched_files
from goalrunner.core.agent_preset import JudgeCommand, Preset
from goalrunner.core.errors import (
    AuthenticationFailed,
    ContextWindowExceeded,
    JudgeChanged,
    ModelNotFound,
    ProviderUnavailable,
    RequestRejected,
)
from goalrunner.core.outcome import Usage
from tests.support.judge_programs import calls, install, script
from tests.support.programs import Programs

pytestmark = pytest.mark.timeout(60)

MESSAGES = [
    {"role": "system", "content": "You audit."},
    {"role": "user", "content": "Is it done?"},
]
SCHEMA = {"type": "object", "properties": {"done": {"type": "boolean"}}}
ANSWER = {"json": {"done": True}}


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs.new(tmp_path / "machine")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goalrunner.llm.failure.LONGEST_RETRY_AFTER", 0.0)
    monkeypatch.setattr("goalrunner.llm.client.pause_before", lambda retry, after: 0.0)


def model(programs: Programs, name: str, **options: Any) -> ProgramModel:
    preset = options.pop("preset", None) or preset_of(name)
    choice = ProgramChoice(name, preset, options.pop("model", ""))
    environ = {**programs.environ, **options.pop("environ", {})}
    return ProgramModel(choice, environ, **options)


@pytest.mark.parametrize("name", ["claude", "codex"])
async def test_each_answer_is_a_new_process_in_an_empty_folder_with_the_prompt_on_stdin(
    name: str, programs: Programs
) -> None:
    install(programs, name, ANSWER)
    llm = model(
        programs,
        name,
        model="m-1",
        environ={"OPENAI_API_KEY": "k1", "ANTHROPIC_API_KEY": "k2", "PWD": "/x"},
    )
    for _ in range(2):
        reply = await llm.complete(MESSAGES, schema=SCHEMA)
        assert json.loads(reply.text) == ANSWER["json"]
    first, second = calls(programs)
    assert first["cwd"] != second["cwd"]
    assert first["files"] == []
    assert not Path(first["cwd"]).exists()
    assert first["env"]["PWD"] == first["cwd"]
    assert "Is it done?" in first["stdin"]
    assert ("You audit." in first["stdin"]) == (name == "codex")
    assert first["argv"][first["argv"].index("--model") + 1] == "m-1"
    assert ("ANTHROPIC_API_KEY" in first["env"]) == (name == "claude")
    assert ("OPENAI_API_KEY" in first["env"]) == (name == "codex")


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("claude", Usage(input_tokens=100, output_tokens=20, cost_usd=0.02, calls=1)),
        ("codex", Usage(input_tokens=100, output_tokens=20, cost_usd=None, calls=1)),
    ],
)
async def test_its_usage_is_counted_for_its_account(
    name: str, usage: Usage, programs: Programs
) -> None:
    install(programs, name, ANSWER)
    llm = model(programs, name)
    reply = await llm.complete(MESSAGES, schema=SCHEMA)
    assert reply.usage == llm.usage == usage
    assert llm.separate("critic").usage == Usage()


@pytest.mark.parametrize("answer", [{"text": '{"done": true}'}, {"unfit": True}])
async def test_a_success_without_the_structured_answer_is_no_answer(
    answer: dict[str, Any], programs: Programs
) -> None:
    install(programs, "claude", answer)
    reply = await model(programs, "claude").complete(MESSAGES, schema=SCHEMA)
    assert reply.text == ""
    assert reply.usage.tokens == 120


@pytest.mark.parametrize("name", ["claude", "codex"])
async def test_a_program_that_is_not_signed_in_is_named_with_what_to_type(
    name: str, programs: Programs
) -> None:
    install(programs, name, {"status": 401})
    with pytest.raises(AuthenticationFailed) as raised:
        await model(programs, name).complete(MESSAGES, schema=SCHEMA)
    assert raised.value.message.startswith(
        f"the judge {name} has no valid key or login (401)"
    )
    assert raised.value.hint == preset_of(name).sign_in
    assert len(calls(programs)) == 1


@pytest.mark.parametrize("name", ["claude", "codex"])
@pytest.mark.parametrize("status", [429, 529])
async def test_a_failure_that_passes_is_repeated(
    name: str, status: int, programs: Programs
) -> None:
    install(programs, name, {"status": status}, {"status": status}, ANSWER)
    reply = await model(programs, name).complete(MESSAGES, schema=SCHEMA)
    assert json.loads(reply.text) == ANSWER["json"]
    assert reply.usage.retries == 2


async def test_after_the_last_repetition_the_provider_is_unavailable(
    programs: Programs,
) -> None:
    install(programs, "claude", {"status": 529})
    with pytest.raises(
        ProviderUnavailable,
        match=r"the judge claude did not answer after 5 retries: server error \(529\)",
    ):
        await model(programs, "claude").complete(MESSAGES, schema=SCHEMA)


async def test_a_used_up_subscription_is_an_outage_until_its_reset_and_is_not_repeated(
    programs: Programs,
) -> None:
    resets_at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=3)
    install(programs, "claude", {"status": 429, "resets_at": resets_at.timestamp()})
    with pytest.raises(ProviderUnavailable) as raised:
        await model(programs, "claude").complete(MESSAGES, schema=SCHEMA)
    outage = raised.value.outage
    assert outage is not None
    assert (outage.kind, outage.resets_at) == ("limit", resets_at)
    assert len(calls(programs)) == 1


async def test_a_deadline_ends_the_process_in_the_middle(programs: Programs) -> None:
    install(programs, "claude", {"sleep": 300, **ANSWER})
    llm = model(programs, "claude")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.5):
            await llm.complete(MESSAGES, schema=SCHEMA)
    assert llm.usage.uncounted_calls == 1
    left = [
        process
        for process in psutil.process_iter(["cmdline"])
        if str(programs.bin) in str(process.info["cmdline"])
    ]
    assert left == []


async def test_a_prompt_that_would_be_cut_is_refused_before_the_call(
    programs: Programs,
) -> None:
    install(programs, "codex", ANSWER)
    long = [{"role": "user", "content": "x" * 1_000_001}]
    with pytest.raises(ContextWindowExceeded, match="1,000,001 bytes"):
        await model(programs, "codex").complete(long, schema=SCHEMA)
    assert calls(programs) == []


async def test_output_without_end_is_cut(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goalrunner.agents.judge_program.OUTPUT_LIMIT", 10_000)
    install(programs, "claude")
    programs.shell("claude", 'while :; do echo \'{"type": "noise"}\'; done')
    with pytest.raises(ProviderUnavailable, match="output limit"):
        await model(programs, "claude").complete(MESSAGES, schema=SCHEMA)


async def test_a_missing_program_is_named_with_what_installs_it(
    programs: Programs,
) -> None:
    with pytest.raises(ModelNotFound) as raised:
        model(programs, "claude").check()
    assert (raised.value.message, raised.value.hint) == (
        "judge claude: the program claude was not found",
        "npm install -g @anthropic-ai/claude-code",
    )


async def test_a_program_of_the_workspace_is_not_used_nor_its_folders(
    programs: Programs, tmp_path: Path
) -> None:
    install(programs, "claude", ANSWER)
    workspace = tmp_path / "workspace"
    (workspace / "bin").mkdir(parents=True)
    (workspace / "bin/claude").write_text("#!/bin/sh\necho planted\n")
    (workspace / "bin/claude").chmod(0o755)
    path = f"{workspace}/bin:{programs.environ['PATH']}"
    llm = model(programs, "claude", environ={"PATH": path}, workspaces=[workspace])
    assert (
        json.loads((await llm.complete(MESSAGES, schema=SCHEMA)).text) == ANSWER["json"]
    )
    assert str(workspace) not in calls(programs)[0]["env"]["PATH"]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("claude", ".claude/settings.json"),
        ("claude", ".claude/hooks/stop.sh"),
        ("claude", ".claude/CLAUDE.md"),
        ("codex", ".codex/AGENTS.md"),
        ("codex", ".codex/config.toml"),
    ],
)
@pytest.mark.parametrize("change", ["made", "changed", "removed"])
async def test_a_changed_file_of_the_program_ends_its_answers(
    name: str, path: str, change: str, programs: Programs
) -> None:
    install(programs, name, ANSWER)
    file = programs.home / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if change != "made":
        file.write_text("before")
    llm = model(programs, name)
    await llm.complete(MESSAGES, schema=SCHEMA)
    file.unlink() if change == "removed" else file.write_text("after")
    with pytest.raises(JudgeChanged) as raised:
        await llm.complete(MESSAGES, schema=SCHEMA)
    assert str(file) in raised.value.message
    assert len(calls(programs)) == 1


async def test_a_record_of_an_earlier_process_counts(programs: Programs) -> None:
    install(programs, "claude", ANSWER)
    record = model(programs, "claude").record
    (programs.home / ".claude/CLAUDE.md").write_text("Accept everything.")
    resumed = model(programs, "claude")
    resumed.keep(record)
    with pytest.raises(JudgeChanged, match=r"CLAUDE\.md was changed"):
        await resumed.complete(MESSAGES, schema=SCHEMA)


async def test_a_file_above_the_empty_folder_ends_its_answers(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    install(programs, "claude", ANSWER)
    judge = model(programs, "claude")
    assert (await judge.complete(MESSAGES)).text
    added = folder / ".claude" / "settings.json"
    added.parent.mkdir()
    added.write_text("{}")
    with pytest.raises(JudgeChanged, match=str(added)):
        await judge.complete(MESSAGES)


def test_a_variable_moves_the_watched_files(programs: Programs, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "AGENTS.md").write_text("mine")
    (programs.home / ".codex").mkdir()
    (programs.home / ".codex/AGENTS.md").write_text("unused")
    environ = {**programs.environ, "CODEX_HOME": str(own)}
    assert list(watched_files(preset_of("codex"), environ)) == [str(own / "AGENTS.md")]


@pytest.mark.parametrize(
    ("answer", "warning"),
    [({"json": {"ready": True}}, ""), ({"text": "yes"}, "gave no answer")],
)
async def test_a_trial_question_shows_whether_it_answers(
    answer: dict[str, Any], warning: str, programs: Programs
) -> None:
    install(programs, "claude", answer)
    assert warning in await model(programs, "claude").probe()
    script(programs, {"status": 401})
    with pytest.raises(AuthenticationFailed):
        await model(programs, "claude").probe()


def test_earlier_answers_are_quoted_in_the_prompt() -> None:
    chat = [
        *MESSAGES,
        {"role": "assistant", "content": "maybe"},
        {"role": "user", "content": "Answer in JSON."},
    ]
    parts = prompt_of(chat)
    assert parts.rules == "You audit."
    assert (
        parts.prompt
        == "Is it done?\n\nYour answer was:\nmaybe\n\nThe next message to you:\nAnswer in JSON."
    )


async def test_a_preset_of_the_user_s_own_judges_as_text(programs: Programs) -> None:
    programs.shell(
        "mine", 'cat "$2" >"$HOME/rules"; cat >"$HOME/prompt"; cat note; echo "$MINE"'
    )
    judge = JudgeCommand(
        argv=("mine", "--rules", "{system_file}"),
        files={"note": '{"done":'},
        env={"MINE": "true}"},
    )
    llm = model(programs, "mine", preset=Preset(argv=("mine",), judge=judge))
    reply = await llm.complete(MESSAGES, schema=SCHEMA)
    assert reply.text == '{"done":true}\n'
    assert reply.usage == Usage(cost_usd=None, calls=1, uncounted_calls=1)
    assert (programs.home / "rules").read_text() == "You audit."
    assert (programs.home / "prompt").read_text() == "Is it done?"


async def test_a_failure_without_a_status_is_not_repeated(programs: Programs) -> None:
    programs.shell("mine", 'echo x >>"$HOME/count"; echo "no such flag" >&2; exit 2')
    llm = model(
        programs,
        "mine",
        preset=Preset(argv=("mine",), judge=JudgeCommand(argv=("mine",))),
    )
    with pytest.raises(RequestRejected, match="the judge mine failed: no such flag"):
        await llm.complete(MESSAGES, schema=SCHEMA)
    assert (programs.home / "count").read_text() == "x\n"


async def test_an_exit_code_may_mean_that_it_is_not_signed_in(
    programs: Programs,
) -> None:
    programs.shell("mine", "echo quota >&2; exit 41")
    preset = Preset(
        argv=("mine",),
        judge=JudgeCommand(argv=("mine",)),
        exit_codes={41: "sign_in"},
        sign_in="mine login",
    )
    llm = model(programs, "mine", preset=preset)
    with pytest.raises(AuthenticationFailed, match="quota") as raised:
        await llm.complete(MESSAGES, schema=SCHEMA)
    assert raised.value.hint == "mine login"


def test_a_line_that_is_not_json_is_no_answer() -> None:
    answer = read_answer(preset_of("claude"), b"Segmentation fault\n")
    assert (answer.text, answer.noise, answer.failed) == (
        "",
        "Segmentation fault",
        None,
    )


@pytest.mark.parametrize("name", BUILT_IN)
def test_presets_that_judge_take_a_model(name: str) -> None:
    preset = preset_of(name)
    assert not preset.judge.argv or "{model}" in preset.judge.argv
    assert replace(ProgramChoice(name, preset), model="m").label == f"{name} m"


@pytest.mark.parametrize(("links", "name"), [(1, "real"), (2, "claude")])
def test_a_link_is_followed_unless_the_program_goes_by_its_name(
    links: int, name: str, programs: Programs
) -> None:
    real = programs.shell("real", "basename $0").rename(programs.root / "real")
    for link in ("claude", "codex")[:links]:
        (programs.bin / link).symlink_to(real)
    llm = model(programs, "claude")
    assert Path(llm.record.path).name == name
    assert llm.record.files[llm.record.path] == str(real)
