"""Settings that make the built-in agents send their requests to a fake provider."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.fake_provider.server import FakeProvider, WireName

KEY = "fake-provider-0123456789abcdef"


@dataclass(frozen=True)
class ProviderSettings:
    """Environment, command-line arguments and files below HOME; `{base_url}` is the address of the provider."""

    wire: WireName
    env: dict[str, str] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)

    def at(self, server: FakeProvider) -> ProviderSettings:
        """Return the settings with the address of a server."""
        url = server.base_url(self.wire)

        def filled(table: dict[str, str]) -> dict[str, str]:
            return {
                name: value.replace("{base_url}", url) for name, value in table.items()
            }

        args = tuple(word.replace("{base_url}", url) for word in self.args)
        return ProviderSettings(self.wire, filled(self.env), args, filled(self.files))


_CODEX = {
    "name": "fake",
    "base_url": "{base_url}",
    "wire_api": "responses",
    "env_key": "FAKE_KEY",
}
_OPENCODE = (
    '{"provider":{"fake":{"npm":"@ai-sdk/openai-compatible","options":{"baseURL":"{base_url}","apiKey":"%s"},'
    '"models":{"fake":{}}}},"model":"fake/fake","small_model":"fake/fake"}'
)
_OPENHANDS = '{"kind":"Agent","llm":{"model":"openai/fake","base_url":"{base_url}","api_key":"%s","usage_id":"agent"}}'

SETTINGS = {
    "claude": ProviderSettings(
        "anthropic",
        {
            "ANTHROPIC_BASE_URL": "{base_url}",
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_AUTH_TOKEN": "",
            "CLAUDE_CODE_OAUTH_TOKEN": "",
        },
    ),
    "codex": ProviderSettings(
        "responses",
        {"FAKE_KEY": KEY},
        (
            *("-c", "model_provider=fake"),
            *(
                word
                for key, value in _CODEX.items()
                for word in ("-c", f"model_providers.fake.{key}={value}")
            ),
        ),
    ),
    "gemini": ProviderSettings(
        "gemini",
        {
            "GOOGLE_GENAI_USE_VERTEXAI": "true",
            "GOOGLE_VERTEX_BASE_URL": "{base_url}",
            "GOOGLE_API_KEY": KEY,
            "GEMINI_API_KEY": "",
        },
        # Driven by ACP, it takes the way to sign in from its settings only.
        files={
            ".gemini/settings.json": '{"security":{"auth":{"selectedType":"vertex-ai"}}}'
        },
    ),
    "opencode": ProviderSettings(
        "openai", {"OPENCODE_CONFIG_CONTENT": _OPENCODE % KEY}
    ),
    "openhands": ProviderSettings(
        "openai",
        {"LLM_BASE_URL": "{base_url}", "LLM_MODEL": "openai/fake", "LLM_API_KEY": KEY},
        files={".openhands/agent_settings.json": _OPENHANDS % KEY},
    ),
    "qwen": ProviderSettings(
        "openai",
        {
            "OPENAI_BASE_URL": "{base_url}",
            "OPENAI_MODEL": "fake",
            "OPENAI_API_KEY": KEY,
        },
        ("--auth-type", "openai"),
        # Otherwise it sends further requests with the tools that the script is for.
        {
            ".qwen/settings.json": '{"memory": {"enableManagedAutoMemory": false}, "ui": {"enableFollowupSuggestions": false}}'
        },
    ),
}
"""By the name of the agent."""
