"""The environment that agent commands and validators get. Owns which variables are the model providers' keys.

A key that a command can read is a key that an agent can send away. What a goal's commands really need is given to them
by name: in the goal file, `env` of `[agent]` or of the validator.

This keeps keys out of the commands' own environment, and no more: a command that runs as the same user can still read
the runner's own environment, through `/proc/<ppid>/environ` on Linux. What prevents that is a jail, not this module.

Decisions, in one place:

| variable | what happens | why |
|---|---|---|
| a model provider's key (`OPENAI_API_KEY`, `HF_TOKEN`, ...) | withheld | no build or test needs it |
| the name in `api_key_env` | withheld | it is a key, whatever its name |
| a cloud's credentials (`AWS_SECRET_ACCESS_KEY`, ...) | kept, but for a model in that cloud | builds and tests use them too |
| everything else (`GITHUB_TOKEN`, `STRIPE_API_KEY`, ...) | kept | it belongs to the user's project |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

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
"""The prefixes under which LiteLLM looks for a provider's key, besides `LLM_`, which is our own fallback."""

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
"""Credentials that open a whole cloud, by the first word of the model's name that makes them a model's key."""


def child_environment(
    environ: Mapping[str, str], *, extra: Mapping[str, str] | None = None, withhold: Iterable[str] = ()
) -> dict[str, str]:
    """`environ` without the model providers' keys and the names in `withhold`, then `extra` on top.

    `extra` is what the user gave by name, so it wins: a validator that needs a provider's key gets it there.
    """
    withheld = frozenset(withhold)
    kept = {name: value for name, value in environ.items() if name not in withheld and not is_provider_key(name)}
    return {**kept, **(extra or {})}


def is_provider_key(name: str) -> bool:
    """Whether an environment variable of that name holds the key of a model provider."""
    return name in _MORE_KEYS or _PROVIDER_KEY.fullmatch(name) is not None


def credentials_of(model: str) -> tuple[str, ...]:
    """The cloud credentials that a model in LiteLLM's naming ("bedrock/...") is reached with, to be withheld as well."""
    provider = model.partition("/")[0]
    return next((names for cloud, names in _CLOUDS.items() if provider.startswith(cloud)), ())
