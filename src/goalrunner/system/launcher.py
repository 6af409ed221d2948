"""Starting child processes with a deadline and a limit on their output; their descendants end with them."""

from __future__ import annotations

import asyncio
import contextvars
import math
import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goalrunner.core.errors import record_errors
from goalrunner.core.ports import Completion
from goalrunner.system.child import ChildProcess, NotStarted, describe_signal, started
from goalrunner.system.processes import Watchdog

SHELL = "/bin/sh"  # by its path: PATH may begin with a folder of the workspace, in which an agent can create a `sh`
OUTPUT_LIMIT = 256_000_000  # bytes of output after which a command is ended
GRACE = 0.5  # seconds between SIGTERM and SIGKILL
_POLL = 0.1  # seconds between two looks at the size of the output
_TAIL = 4_000


@contextmanager
def opened_sink(path: Path) -> Iterator[int]:
    """Open a new, empty output file for appending, so that two writers never overwrite each other. Raise RecordError."""
    with record_errors(f"cannot write {path}"):
        sink = os.open(
            path,
            os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW,
            0o600,
        )
    try:
        yield sink
    finally:
        os.close(sink)


def tail_of(path: Path, most: int = _TAIL) -> str:
    """Return the last `most` bytes of a file as text; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - most, 0))
            data = file.read(most)
    except OSError:
        return ""
    if size > most:  # the cut may have gone through a character
        data = data.lstrip(bytes(range(0x80, 0xC0)))
    return data.decode(errors="replace").replace("\0", "")


@dataclass(frozen=True)
class ProcessLauncher:
    """The port `Launcher` on this machine. `output_limit` in bytes, `grace` in seconds.

    `marked` False leaves out the environment variable that tags its processes, where something else ends all of them.
    Its processes end with this program, even if the program is killed.
    """

    output_limit: int = OUTPUT_LIMIT
    grace: float = GRACE
    marked: bool = True
    watchdog: Watchdog = field(default_factory=Watchdog, repr=False, compare=False)

    def close(self) -> None:
        self.watchdog.close()

    async def launch(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        output: Path,
        timeout: float | None = None,
        stdin: bytes | None = None,
        errors: Path | None = None,
        shared: Sequence[Path] = (),
        on_start: Callable[[Callable[[], float]], None] | None = None,
    ) -> Completion:
        """See `goalrunner.core.ports.Launcher`. Raise RecordError if `output` or `errors` cannot be written."""
        began = time.monotonic()
        with ExitStack() as files:
            sinks = [
                files.enter_context(opened_sink(path))
                for path in (output, errors)
                if path is not None
            ]
            source = subprocess.DEVNULL  # not an empty file, which `rg` would search instead of the current folder
            if stdin:  # a file rather than a pipe, so that a child that does not read never blocks the runner
                given = files.enter_context(tempfile.TemporaryFile())
                given.write(stdin)
                given.seek(0)
                source = given.fileno()
            streams = (source, sinks[0], sinks[-1])
            process = started(
                argv,
                cwd=cwd,
                env=env,
                streams=streams,
                watchdog=self.watchdog,
                grace=self.grace,
                marked=self.marked,
            )
            try:
                async with process as child:
                    if on_start is not None:
                        on_start(child.processor_time)
                    cut = await self._until_end(child, sinks, timeout)
                    duration = time.monotonic() - began
            except NotStarted as refusal:
                duration = time.monotonic() - began
                return Completion(
                    refusal.exit_code,
                    duration,
                    timed_out=False,
                    output=output,
                    error=refusal.reason,
                )
            for one in sinks:
                if self._is_over_limit(one):
                    cut = cut or self._limit_words
                    os.truncate(one, self.output_limit)
        error = cut or (
            "its exit status was lost"
            if child.status is None
            else describe_signal(child.status)
        )
        return Completion(
            exit_code=None if error else child.status,
            duration=duration,
            timed_out=cut.startswith("timed out"),
            output=output,
            error=error,
            survivors=child.survivors,
        )

    async def _until_end(
        self, child: ChildProcess, sinks: Sequence[int], timeout: float | None
    ) -> str:
        """Wait for the end of the child; return why it must be ended, or an empty string if it ended by itself."""
        deadline = time.monotonic() + timeout if timeout is not None else math.inf
        while not await child.wait(max(0.0, min(_POLL, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                return f"timed out after {timeout:g} s"
            if any(map(self._is_over_limit, sinks)):
                return self._limit_words
        return ""

    def _is_over_limit(self, sink: int) -> bool:
        return os.fstat(sink).st_size > self.output_limit

    @property
    def _limit_words(self) -> str:
        return f"output limit of {self.output_limit / 1_000_000:g} MB"


def program_outside(
    name: str, environ: Mapping[str, str], folders: Iterable[Path]
) -> Path | None:
    """Return the first program of that name on PATH that neither lies nor is linked within `folders`, or None."""
    roots = [Path(os.path.realpath(folder)) for folder in folders]
    for entry in environ.get("PATH", os.defpath).split(os.pathsep):
        path = Path(entry, name)
        if path.is_absolute() and os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113 - never raises
            places = (path.resolve(), path.parent.resolve())
            if not any(
                place.is_relative_to(root) for place in places for root in roots
            ):
                return path
    return None


async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call `function` in a daemon thread; return its result or raise its exception.

    Cancelling the wait leaves the thread running, because Python cannot end it. The executor of the event loop is not
    used: closing the loop would wait for it.
    """
    done: Future[tuple[Any, BaseException | None]] = Future()
    done.set_running_or_notify_cancel()  # from now on it cannot be cancelled
    context = contextvars.copy_context()

    def work() -> None:
        value, failure = None, None
        try:
            value = context.run(function, *arguments)
        except BaseException as error:
            failure = error
        done.set_result((value, failure))

    threading.Thread(target=work, name="goal-thread", daemon=True).start()
    value, error = await asyncio.wrap_future(done)
    if error is not None:
        raise error
    return value


_PROVIDERS = """
    AI21 AIML ALEPHALPHA ALEPH_ALPHA AMAZON_NOVA ANTHROPIC ANTHROPIC_AWS ANYSCALE ARK AZURE AZURE_AI AZURE_OPENAI
    AZURE_SPEECH BASETEN BEDROCK_MANTLE BFL BLACK_FOREST_LABS BYTEZ CEREBRAS CHUTES CLARIFAI CO CODESTRAL
    COHERE COMETAPI COMPACTIFAI DASHSCOPE DATAROBOT DEEPGRAM DEEPINFRA DEEPSEEK DOCKER_MODEL_RUNNER EDENAI
    ELEVENLABS EMPOWER FAL_AI FEATHERLESS FEATHERLESS_AI FIREWORKS FIREWORKSAI FIREWORKS_AI FRIENDLI FRIENDLIAI
    GALADRIEL GEMINI GIGACHAT GOOGLE GRADIENT_AI GROQ HOSTED_VLLM HUGGINGFACE HYPERBOLIC INCEPTION INFINITY
    JINA JINA_AI LAMBDA LANGGRAPH LEMONADE LITELLM LITELLM_PROXY LLAMA LLAMAFILE LLM LM_STUDIO MANUS MARITALK META
    MINIMAX MISTRAL MISTRAL_AZURE MODELSCOPE MOONSHOT MORPH NANOGPT NEBIUS NLP_CLOUD NOVITA NSCALE NVIDIA_NIM
    NVIDIA_RIVA OLLAMA OPENAI OPENAI_LIKE OPENROUTER OR OVHCLOUD PALM PERPLEXITY PERPLEXITYAI POE PREDIBASE PUBLICAI
    QWENCLOUD QWEN_AI_PLATFORM RAGFLOW RECRAFT REPLICATE RUNWAYML SAMBANOVA SONIOX STABILITY SYNTHETIC TENCENT TOGETHER
    TOGETHERAI TOGETHER_AI TOPAZ V0 VERCEL_AI_GATEWAY VERTEXAI VOLCENGINE VOYAGE VOYAGE_AI WATSONX WX XAI XINFERENCE ZAI
""".split()
"""The prefixes of the variables in which LiteLLM looks for a provider's key, and `LLM_`, our own fallback."""

_PROVIDER_KEY = re.compile(rf"(?:{'|'.join(_PROVIDERS)})_API_?KEYS?(?:_\d+)?")

_MORE_KEYS = frozenset(
    """
    ANTHROPIC_AUTH_TOKEN AWS_BEARER_TOKEN_BEDROCK CLAUDE_CODE_OAUTH_TOKEN COMETAPI_KEY AIMLAPI_KEY DATAROBOT_API_TOKEN
    FIREWORKS_AI_TOKEN FRIENDLI_TOKEN GIGACHAT_ACCESS_TOKEN GIGACHAT_CREDENTIALS HF_TOKEN HUGGING_FACE_HUB_TOKEN
    JINA_AI_TOKEN LITELLM_MASTER_KEY OPENAI_ADMIN_KEY OPENROUTER_KEY REPLICATE_API_TOKEN RUNWAYML_API_SECRET
    SCW_SECRET_KEY TOGETHER_AI_TOKEN VOYAGE_AI_TOKEN WATSONX_TOKEN WATSONX_ZENAPIKEY
    """.split()
)
"""Keys of model providers under other names."""

_CLOUDS: Mapping[str, tuple[str, ...]] = {
    "bedrock": (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
    ),
    "sagemaker": (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
    ),
    "vertex_ai": ("GOOGLE_APPLICATION_CREDENTIALS", "VERTEX_CREDENTIALS"),
    "azure": ("AZURE_CLIENT_SECRET", "AZURE_AD_TOKEN", "AZURE_PASSWORD"),
    "databricks": ("DATABRICKS_API_KEY", "DATABRICKS_CLIENT_SECRET"),
    "cloudflare": ("CLOUDFLARE_API_KEY",),
    "heroku": ("HEROKU_API_KEY",),
    "github": ("GITHUB_API_KEY",),
}
"""Credentials of a whole cloud that models need, by the first word of the model's name."""


JOB_FILES = (
    "GITHUB_ENV",
    "GITHUB_PATH",
    "GITHUB_OUTPUT",
    "GITHUB_STATE",
    "GITHUB_STEP_SUMMARY",
)
"""Variables with files through which a process changes later steps of a job of GitHub, and what the job reports."""


def child_environment(
    environ: Mapping[str, str],
    *,
    extra: Mapping[str, str] | None = None,
    withhold: Iterable[str] = (),
) -> dict[str, str]:
    """Return `environ` without the keys of model providers, JOB_FILES and the names in `withhold`, and with `extra`.

    `extra` is what the user named: a validator that needs a provider's key gets it there.
    """
    withheld = frozenset((*withhold, *JOB_FILES))
    kept = {
        name: value
        for name, value in environ.items()
        if name not in withheld and not is_provider_key(name)
    }
    return {**kept, **(extra or {})}


def is_provider_key(name: str) -> bool:
    """Return whether an environment variable with that name contains the key of a model provider."""
    return name in _MORE_KEYS or _PROVIDER_KEY.fullmatch(name) is not None


def credentials_of(model: str) -> tuple[str, ...]:
    """Return the cloud credentials of a model in LiteLLM's naming ("bedrock/..."), which are withheld as well."""
    provider = model.partition("/")[0]
    return next(
        (names for cloud, names in _CLOUDS.items() if provider.startswith(cloud)), ()
    )
