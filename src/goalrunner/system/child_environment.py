"""The environment variables of child processes, without the keys of model providers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# The prefixes of the variables in which LiteLLM looks for a provider's key, and `LLM_`,
# our own fallback.
_PROVIDERS = """
    AI21 AIML ALEPHALPHA ALEPH_ALPHA AMAZON_NOVA ANTHROPIC ANTHROPIC_AWS ANYSCALE ARK
    AZURE AZURE_AI AZURE_OPENAI AZURE_SPEECH BASETEN BEDROCK_MANTLE BFL
    BLACK_FOREST_LABS BYTEZ CEREBRAS CHUTES CLARIFAI CO CODESTRAL COHERE COMETAPI
    COMPACTIFAI DASHSCOPE DATAROBOT DEEPGRAM DEEPINFRA DEEPSEEK DOCKER_MODEL_RUNNER
    EDENAI ELEVENLABS EMPOWER FAL_AI FEATHERLESS FEATHERLESS_AI FIREWORKS FIREWORKSAI
    FIREWORKS_AI FRIENDLI FRIENDLIAI GALADRIEL GEMINI GIGACHAT GOOGLE GRADIENT_AI GROQ
    HOSTED_VLLM HUGGINGFACE HYPERBOLIC INCEPTION INFINITY JINA JINA_AI LAMBDA LANGGRAPH
    LEMONADE LITELLM LITELLM_PROXY LLAMA LLAMAFILE LLM LM_STUDIO MANUS MARITALK META
    MINIMAX MISTRAL MISTRAL_AZURE MODELSCOPE MOONSHOT MORPH NANOGPT NEBIUS NLP_CLOUD
    NOVITA NSCALE NVIDIA_NIM NVIDIA_RIVA OLLAMA OPENAI OPENAI_LIKE OPENROUTER OR
    OVHCLOUD PALM PERPLEXITY PERPLEXITYAI POE PREDIBASE PUBLICAI QWENCLOUD
    QWEN_AI_PLATFORM RAGFLOW RECRAFT REPLICATE RUNWAYML SAMBANOVA SONIOX STABILITY
    SYNTHETIC TENCENT TOGETHER TOGETHERAI TOGETHER_AI TOPAZ V0 VERCEL_AI_GATEWAY
    VERTEXAI VOLCENGINE VOYAGE VOYAGE_AI WATSONX WX XAI XINFERENCE ZAI
""".split()

_PROVIDER_KEY = re.compile(rf"(?:{'|'.join(_PROVIDERS)})_API_?KEYS?(?:_\d+)?")

# Keys of model providers under other names.
_MORE_KEYS = frozenset(
    """
    ANTHROPIC_AUTH_TOKEN AWS_BEARER_TOKEN_BEDROCK CLAUDE_CODE_OAUTH_TOKEN COMETAPI_KEY
    AIMLAPI_KEY DATAROBOT_API_TOKEN FIREWORKS_AI_TOKEN FRIENDLI_TOKEN
    GIGACHAT_ACCESS_TOKEN GIGACHAT_CREDENTIALS HF_TOKEN HUGGING_FACE_HUB_TOKEN
    JINA_AI_TOKEN LITELLM_MASTER_KEY OPENAI_ADMIN_KEY OPENROUTER_KEY
    REPLICATE_API_TOKEN RUNWAYML_API_SECRET SCW_SECRET_KEY TOGETHER_AI_TOKEN
    VOYAGE_AI_TOKEN WATSONX_TOKEN WATSONX_ZENAPIKEY
    """.split()
)

_AWS_KEYS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)
# Credentials of a whole cloud that models need, by the first word of the model's name.
# They are withheld only if the model is used: builds and deployments need them, too.
_CLOUDS: Mapping[str, tuple[str, ...]] = {
    "bedrock": _AWS_KEYS,
    "sagemaker": _AWS_KEYS,
    "vertex_ai": ("GOOGLE_APPLICATION_CREDENTIALS", "VERTEX_CREDENTIALS"),
    "azure": ("AZURE_CLIENT_SECRET", "AZURE_AD_TOKEN", "AZURE_PASSWORD"),
    "databricks": ("DATABRICKS_API_KEY", "DATABRICKS_CLIENT_SECRET"),
    "cloudflare": ("CLOUDFLARE_API_KEY",),
    "heroku": ("HEROKU_API_KEY",),
    "github": ("GITHUB_API_KEY",),
}

JOB_FILES = (
    "GITHUB_ENV",
    "GITHUB_PATH",
    "GITHUB_OUTPUT",
    "GITHUB_STATE",
    "GITHUB_STEP_SUMMARY",
)
"""Variables of GitHub with files through which a process acts on its job.

It could change later steps, and what the job reports.
"""


def child_environment(
    environ: Mapping[str, str],
    *,
    extra: Mapping[str, str] | None = None,
    withhold: Iterable[str] = (),
) -> dict[str, str]:
    """Return `environ` without keys of model providers, and with `extra`.

    JOB_FILES and the names in `withhold` are left out as well. `extra` is what the user
    named: a validator that needs a provider's key gets it there.
    """
    withheld_names = frozenset((*withhold, *JOB_FILES))
    environment = {
        name: value
        for name, value in environ.items()
        if name not in withheld_names and not is_provider_key(name)
    }
    environment.update(extra or {})
    return environment


def is_provider_key(name: str) -> bool:
    """Return whether a variable with that name contains the key of a model provider."""
    return name in _MORE_KEYS or _PROVIDER_KEY.fullmatch(name) is not None


def credentials_of(model: str) -> tuple[str, ...]:
    """Return the cloud credentials of a model, which are withheld as well.

    The model has its name in LiteLLM ("bedrock/...").
    """
    provider = model.partition("/")[0]
    for cloud, names in _CLOUDS.items():
        if provider.startswith(cloud):
            return names
    return ()
