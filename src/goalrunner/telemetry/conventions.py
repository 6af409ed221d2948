"""The names of operations and attributes in telemetry.

Those that begin with `gen_ai` are OpenTelemetry's for generative AI, as of version 0.1
of https://github.com/open-telemetry/semantic-conventions-genai. They are not stable
yet, so no other module contains one.
"""

from __future__ import annotations

from goalrunner.core.field_types import SCRIPTED

OPERATION = "gen_ai.operation.name"
WORKFLOW = "invoke_workflow"
"""The operation of a session of a run."""
AGENT = "invoke_agent"
"""The operation of a turn of the agent."""
TOOL = "execute_tool"
CHAT = "chat"
"""The operation of one call of a model."""

AGENT_NAME = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
"""The model that an external agent reports."""
PROVIDER = "gen_ai.provider.name"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL = "gen_ai.tool.call.id"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"

EVALUATION = "gen_ai.evaluation.result"
"""The event of one result of a validator, the judge or the critic."""
EVALUATION_NAME = "gen_ai.evaluation.name"
SCORE = "gen_ai.evaluation.score.value"
SCORE_LABEL = "gen_ai.evaluation.score.label"
EXPLANATION = "gen_ai.evaluation.explanation"

ERROR = "error.type"

TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105  no secret
TOKEN_USAGE = "gen_ai.client.token.usage"  # noqa: S105  no secret
AGENT_DURATION = "gen_ai.invoke_agent.duration"
TOOL_DURATION = "gen_ai.execute_tool.duration"

# LiteLLM's names of providers that have another name in the conventions.
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}


def model_attributes(model: str) -> dict[str, str]:
    """Return the attributes of a model with its name in LiteLLM: "openai/gpt-5"."""
    if not model:
        return {}
    provider, slash, name = model.partition("/")
    if not slash:
        return {MODEL: model}
    if model.startswith(SCRIPTED):
        # What follows is the path of a file.
        return {MODEL: provider}
    return {PROVIDER: _PROVIDERS.get(provider, provider), MODEL: name}
