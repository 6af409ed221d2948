"""The environment variables of child processes, outside and inside of a sandbox."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from goalrunner.system.sandbox_view import RUN, TMP

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
""".split()  # noqa: SIM905 - a table, to be read
"""The prefixes of the variables in which LiteLLM looks for a provider's key, and `LLM_`, our own fallback."""

_PROVIDER_KEY = re.compile(rf"(?:{'|'.join(_PROVIDERS)})_API_?KEYS?(?:_\d+)?")

_MORE_KEYS = frozenset(
    """
    ANTHROPIC_AUTH_TOKEN AWS_BEARER_TOKEN_BEDROCK CLAUDE_CODE_OAUTH_TOKEN COMETAPI_KEY AIMLAPI_KEY DATAROBOT_API_TOKEN
    FIREWORKS_AI_TOKEN FRIENDLI_TOKEN GIGACHAT_ACCESS_TOKEN GIGACHAT_CREDENTIALS HF_TOKEN HUGGING_FACE_HUB_TOKEN
    JINA_AI_TOKEN LITELLM_MASTER_KEY OPENAI_ADMIN_KEY OPENROUTER_KEY REPLICATE_API_TOKEN RUNWAYML_API_SECRET
    SCW_SECRET_KEY TOGETHER_AI_TOKEN VOYAGE_AI_TOKEN WATSONX_TOKEN WATSONX_ZENAPIKEY
    """.split()  # noqa: SIM905
)
"""Keys of model providers under other names."""

_CLOUDS: Mapping[str, tuple[str, ...]] = {
    "bedrock": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    "sagemaker": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    "vertex_ai": ("GOOGLE_APPLICATION_CREDENTIALS", "VERTEX_CREDENTIALS"),
    "azure": ("AZURE_CLIENT_SECRET", "AZURE_AD_TOKEN", "AZURE_PASSWORD"),
    "databricks": ("DATABRICKS_API_KEY", "DATABRICKS_CLIENT_SECRET"),
    "cloudflare": ("CLOUDFLARE_API_KEY",),
    "heroku": ("HEROKU_API_KEY",),
    "github": ("GITHUB_API_KEY",),
}
"""Credentials of a whole cloud that models need, by the first word of the model's name."""


def child_environment(
    environ: Mapping[str, str], *, extra: Mapping[str, str] | None = None, withhold: Iterable[str] = ()
) -> dict[str, str]:
    """Return `environ` without the keys of model providers and the names in `withhold`, and with `extra`.

    `extra` is what the user named: a validator that needs a provider's key gets it there.
    """
    withheld = frozenset(withhold)
    kept = {name: value for name, value in environ.items() if name not in withheld and not is_provider_key(name)}
    return {**kept, **(extra or {})}


def is_provider_key(name: str) -> bool:
    """Return whether an environment variable with that name contains the key of a model provider."""
    return name in _MORE_KEYS or _PROVIDER_KEY.fullmatch(name) is not None


def credentials_of(model: str) -> tuple[str, ...]:
    """Return the cloud credentials of a model in LiteLLM's naming ("bedrock/..."), which are withheld as well."""
    provider = model.partition("/")[0]
    return next((names for cloud, names in _CLOUDS.items() if provider.startswith(cloud)), ())


_CACHES = {
    "XDG_CACHE_HOME": ".cache",
    "PIP_CACHE_DIR": ".cache/pip",
    "UV_CACHE_DIR": ".cache/uv",
    "POETRY_CACHE_DIR": ".cache/pypoetry",
    "npm_config_cache": ".cache/npm",
    "YARN_CACHE_FOLDER": ".cache/yarn",
    "GOCACHE": ".cache/go-build",
    "GRADLE_USER_HOME": ".cache/gradle",
    "NUGET_PACKAGES": ".cache/nuget",
    "COMPOSER_CACHE_DIR": ".cache/composer",
    "MPLCONFIGDIR": ".cache/matplotlib",
}
"""Caches that tools write at every use: below the /tmp of the sandbox."""

_INSTALLED = {
    "PLAYWRIGHT_BROWSERS_PATH": "ms-playwright",
    "PUPPETEER_CACHE_DIR": "puppeteer",
    "CYPRESS_CACHE_FOLDER": "Cypress",
    "HF_HOME": "huggingface",
    "TORCH_HOME": "torch",
}
"""Installed programs and models in cache folders; they are read where they are."""

_GONE = (
    "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS",
    "XDG_RUNTIME_DIR", "DOCKER_HOST", "CONTAINER_HOST", "WAYLAND_DISPLAY", "XAUTHORITY", "TMUX", "STY", "GOAL_HOME",
)  # fmt: skip
"""Sockets of services that act outside of the sandbox, and the hidden GOAL_HOME."""

_FOLDERS = ("PATH", "PYTHONPATH", "NODE_PATH", "LD_LIBRARY_PATH", "GOPATH")
_ROOTS = (
    "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "NVM_DIR", "CARGO_HOME", "RUSTUP_HOME", "GOROOT", "JAVA_HOME",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "PIP_FIND_LINKS",
)  # fmt: skip


def inside(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` for a sandbox: with caches in its /tmp, and without sockets of services."""
    kept = {name: value for name, value in environ.items() if name not in _GONE}
    for name in ("TMPDIR", "TMP", "TEMP"):
        if name in kept:
            kept[name] = str(TMP)
    caches = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "/") / ".cache")
    installed = {name: str(caches / folder) for name, folder in _INSTALLED.items() if (caches / folder).is_dir()}
    return {**installed, **kept, **{name: str(TMP / folder) for name, folder in _CACHES.items()}}


def shown(environ: Mapping[str, str], home: Path | None = None) -> tuple[Path, ...]:
    """Return the programs and packages that must stay visible although they lie in /tmp, in /run, or in a replaced home."""
    folders = (part for name in _FOLDERS for part in environ.get(name, "").split(os.pathsep))
    own = "" if home else environ.get("HOME", "")
    named = (*folders, *(environ.get(name, "") for name in _ROOTS), *_interpreter(), own)
    places = [*([home] if home else []), TMP, RUN, Path("/var/tmp")]  # noqa: S108
    found = (path for text in named if os.path.isabs(text) for path in _of(Path(text), places, home))  # noqa: PTH117
    return tuple(dict.fromkeys(found))


def _interpreter() -> Iterator[str]:
    yield from (sys.prefix, sys.base_prefix, sys.executable)
    yield str(Path(__file__).parents[1])


def _of(path: Path, places: list[Path], home: Path | None) -> Iterator[Path]:
    for spelled in dict.fromkeys((path, Path(os.path.realpath(path)))):
        place = next((place for place in places if spelled != place and spelled.is_relative_to(place)), None)
        if place is None:
            continue
        if place == home:
            # Programs there are mostly links: ~/.local/bin/x leads to ~/.local/share/x.
            yield Path(os.path.realpath(place / spelled.relative_to(place).parts[0]))
        else:
            # node_modules/.bin contains links to its siblings.
            prefix = spelled.parent if spelled.name in ("bin", ".bin") and spelled.parent != place else spelled
            yield Path(os.path.realpath(prefix))
