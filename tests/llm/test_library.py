"""LiteLLM is imported late, once, quietly, and without the network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"


def _run(code: str, folder: Path, *options: str) -> str:
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith("_API_KEY")
    }
    env["PYTHONPATH"] = f"{SOURCE}{os.pathsep}{SOURCE.parent}"
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


def test_importing_the_package_imports_no_heavy_library(tmp_path: Path) -> None:
    code = """
import sys
from goalrunner.llm import LLM, warm_up
warm_up(["scripted/replies.jsonl", ""])
print([name for name in ("litellm", "httpx", "openai", "rich", "typer") if name in sys.modules])
"""
    assert _run(code, tmp_path) == "[]\n"


def test_a_run_with_a_recording_imports_no_litellm(tmp_path: Path) -> None:
    (tmp_path / "replies.jsonl").write_text('{"text": "hi"}\n', encoding="utf-8")
    code = """
import asyncio, sys
from goalrunner.llm import LLM
print(asyncio.run(LLM("scripted/replies.jsonl").complete([])).text, "litellm" in sys.modules)
"""
    assert _run(code, tmp_path) == "hi False\n"


@pytest.mark.parametrize(
    ("judge", "reason"),
    [
        ("opnai/gpt-5-mini", "model_not_found"),
        pytest.param("openai/gpt-5-mini", "authentication", marks=pytest.mark.slow),
    ],
)
def test_a_run_whose_judge_cannot_be_asked_imports_no_litellm(
    judge: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "replies.jsonl").write_text('{"text": "hi"}\n', encoding="utf-8")
    code = f"""
import sys
from goalrunner import chat_conversation, run_goal
outcome = run_goal(chat_conversation("scripted/replies.jsonl"), "Say hi.", judge={judge!r}, home="home")
print(outcome.stop_reason, "litellm" in sys.modules)
"""
    assert _run(code, tmp_path) == f"{reason} False\n"


@pytest.mark.slow
def test_warming_up_is_quiet_shared_and_blind_to_the_folder(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "OPENAI_BASE_URL=http://127.0.0.1:9\n", encoding="utf-8"
    )
    code = """
import asyncio, gc, os, socket, threading, time
def refuse(*_): raise AssertionError("a connection at import")
connect, socket.socket.connect = socket.socket.connect, refuse
from goalrunner.llm import LLM, warm_up
begun = time.monotonic()
warm_up(["openai/x"])
print(time.monotonic() - begun < 0.5)
from goalrunner.llm import library
first = library.litellm()
socket.socket.connect = connect
for thread in threading.enumerate():
    if thread.name == "litellm-import":
        thread.join()
print(first is library.litellm(), gc.isenabled(), "OPENAI_BASE_URL" in os.environ)
from tests.support.model_server import ModelServer, call
from goalrunner.llm import ToolSpec
with ModelServer([call("shell", command="ls")]) as server:
    llm = LLM("openai/x", api_base=server.base_url)
    reply = asyncio.run(llm.complete([{"role": "user", "content": "hi"}], tools=[ToolSpec("shell", "", {"type": "object"})]))
print(reply.tool_calls[0].arguments)
"""
    assert (
        _run(code, tmp_path, "-W", "error")
        == 'True\nTrue True False\n{"command": "ls"}\n'
    )


def test_the_import_lock_is_not_held_by_a_failed_import(tmp_path: Path) -> None:
    (tmp_path / "litellm.py").write_text(
        "raise ImportError('broken')\n", encoding="utf-8"
    )
    code = """
import sys
sys.path.insert(0, ".")
from goalrunner.llm import library
for _ in range(2):
    try:
        library.litellm()
    except ImportError as error:
        print(error)
"""
    assert _run(code, tmp_path) == "broken\nbroken\n"


@pytest.mark.parametrize("moved", [False, True])
def test_models_of_the_import_are_built_at_their_first_use(
    tmp_path: Path, moved: bool
) -> None:
    (tmp_path / "litellm.py").write_text(
        "import pydantic\nclass Model(pydantic.BaseModel):\n    number: int\n"
    )
    code = f"""
import sys
sys.path.insert(0, ".")
from pydantic import BaseModel, RootModel, TypeAdapter
if {moved}:
    sys.modules["pydantic._internal._config"] = None
from goalrunner.llm import library
from goalrunner.system import take_process
take_process()
class After(library.litellm().Model):
    pass
model = library.litellm().Model
print(model.__pydantic_complete__, After.__pydantic_complete__, model(number="3"), model.__pydantic_complete__)
"""
    assert _run(code, tmp_path) == f"{moved} True number=3 True\n"


@pytest.mark.slow
def test_an_import_that_failed_late_succeeds_when_it_is_tried_again(
    tmp_path: Path,
) -> None:
    code = """
import sys
class FullDisk:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("litellm.") and hasattr(sys.modules["litellm"], "utils"):
            sys.meta_path.remove(self)
            raise OSError("no space left")
sys.meta_path.insert(0, FullDisk())
from goalrunner.llm import library, prices
try:
    library.litellm()
except OSError as error:
    print(error)
print(prices.context_window(library.litellm(), "openai/gpt-4o") is not None)
"""
    assert _run(code, tmp_path) == "no space left\nTrue\n"


LOGGING = """
import logging, sys, threading, time
logging.basicConfig(stream=sys.stdout, format="%(message)s")
from goalrunner.llm import LLM, library, warm_up
warm_up(["openai/x"])
assert LLM("openai/x").context_window() is None
(thread,) = [thread for thread in threading.enumerate() if thread.name == "litellm-import"]
log, longest = logging.getLogger("asyncio"), 0.0
while thread.is_alive():
    begun = time.monotonic()
    log.error("said")
    longest = max(longest, time.monotonic() - begun)
    time.sleep(0.01)
log.error("said")
print(library.imported_litellm() is not None, longest < 1.5, [type(each).__name__ for each in log.filters])
"""


@pytest.mark.slow
def test_other_threads_may_log_during_the_import(tmp_path: Path) -> None:
    printed = _run(LOGGING, tmp_path).splitlines()
    assert set(printed[:-1]) == {"said"}
    assert printed[-1] == "True True ['SecretRedactionFilter']"


@pytest.mark.slow
def test_a_model_of_a_local_server_is_asked_without_warnings_about_litellms_own_code(
    tmp_path: Path,
) -> None:
    code = """
import asyncio
from goalrunner.llm import LLM
model = LLM("ollama/llama3", api_base="http://127.0.0.1:9")
asyncio.run(model.probe())
print("asked")
"""
    assert _run(code, tmp_path).endswith("asked\n")  # LiteLLM itself may print advice


GUEST = """
import gc, json, logging, os, sys, warnings
from pydantic._internal import _config
from goalrunner import GoalStatus, run_goal, chat_conversation
from tests.support.model_server import ModelServer, say

def settings():
    levels = {name: (logger.level, logger.disabled, logger.propagate) for name, logger in loggers.items()}
    return [dict(os.environ), levels, gc.isenabled(), gc.get_freeze_count(), dict(_config.config_defaults)]

names = ("asyncio", "uvicorn.error")
if "first" in sys.argv:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm
    names += ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "litellm")
    litellm.modify_params = "mine"
loggers = {name: logging.getLogger(name) for name in names}
before = settings()
with ModelServer([say("Done.")]) as server:
    agent = chat_conversation("openai/x", workspace=".", api_base=server.base_url)
    outcome = run_goal(agent, "Answer.", validators=lambda response, agent: True, home="home", max_iterations=1)
assert outcome.status is GoalStatus.COMPLETE, outcome
import litellm
after = settings()
assert after[1:] == before[1:], (after[1:], before[1:])
# LiteLLM itself tells tiktoken where its files are.
added = {name: value for name, value in after[0].items() if before[0].get(name) != value}
assert before[0].keys() <= after[0].keys() and added.keys() <= {"TIKTOKEN_CACHE_DIR", "CUSTOM_TIKTOKEN_CACHE_DIR"}, added
print(litellm.modify_params, litellm.disable_aiohttp_transport, litellm.suppress_debug_info)
"""


@pytest.mark.slow
@pytest.mark.parametrize("first", ["first", ""])
def test_settings_of_a_calling_program_stay_as_they_are(
    first: str, tmp_path: Path
) -> None:
    code = GUEST.replace('"first" in sys.argv', repr(bool(first)))
    printed = _run(code, tmp_path)
    assert printed == f"{'mine' if first else False} False False\n"
