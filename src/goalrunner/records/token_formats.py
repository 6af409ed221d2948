"""The formats of known tokens, and the marker that replaces a secret."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FEW = 6
"""Different characters that a secret has at least: `xxxxxxxxxxxx` stands for one."""

_PLACEHOLDERS = frozenset(
    b"password passwort passwd changeme secret secrets postgres postgresql username example mypassword "
    b"yourpassword your-password your_password redacted x-oauth-basic x-access-token".split()
)
"""Passwords in addresses that are placeholders."""


@dataclass(frozen=True)
class TokenFormat:
    """One format: its `name` (the kind that is counted), the literals that begin it, its pattern, and what it is."""

    name: str
    begins: tuple[bytes, ...]
    rest: str
    """What follows the literal, as a regular expression over bytes; only a group named `secret` is replaced, if there is one."""
    what: str
    inside_words: bool = False
    """Whether it may also follow a letter or a digit."""
    distinct: int = _FEW
    """Different characters that the replaced text has at least, the literal not counted."""

    @property
    def pattern(self) -> re.Pattern[bytes]:
        """Return the pattern of the whole token, literal included."""
        literals = b"|".join(re.escape(begin) for begin in self.begins)
        return re.compile(b"(?:%s)%s" % (literals, self.rest.encode("ascii")))


def token(match: re.Match[bytes], rule: TokenFormat) -> tuple[int, int] | None:
    """Return the start and end of the secret in a match; None for a placeholder."""
    grouped = "secret" in match.re.groupindex
    start, end = match.span("secret") if grouped else match.span()
    text = match.string[start:end]
    body = text if grouped else text[min(map(len, rule.begins)) :]
    if len(set(body)) < rule.distinct or text.lower() in _PLACEHOLDERS:
        return None
    return start, end


_ALNUM = "[A-Za-z0-9]"
_GAP = r"(?:\s|\\[nrt]|[\"',+|-]){0,12}"
"""What may stand between the lines of a key in source code, in JSON and in a patch."""

_USERINFO = r"[^\s/:@\"'<>\[\]{}`?#\\]"

FORMATS: tuple[TokenFormat, ...] = (
    # A key id ends a row of 20; Amazon's documentation uses ids that end with EXAMPLE, which are left alone.
    TokenFormat("aws key", (b"AKIA", b"ASIA"), "(?![A-Z2-7]{9}EXAMPLE)[A-Z2-7]{16}", "AWS access key ids"),
    TokenFormat("github token", (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"), f"{_ALNUM}{{36,255}}", "GitHub tokens",
         inside_words=True),
    TokenFormat("github token", (b"github_pat_",), "[A-Za-z0-9_]{50,255}", "GitHub fine-grained personal access token",
         inside_words=True),
    TokenFormat("gitlab token", (b"glpat-", b"gldt-", b"glrt-", b"glptt-"),
         r"[A-Za-z0-9_-]{20,300}(?:\.[0-9a-z]{2}\.?[0-9a-z]{7,9})?",
         "GitLab access, deploy, runner and trigger tokens", inside_words=True),
    TokenFormat("slack token", (b"xox",), "[abprse]-[0-9]{1,14}-[A-Za-z0-9-]{16,250}", "Slack bot, user and workspace tokens",
         inside_words=True),
    TokenFormat("slack token", (b"xapp-",), "[0-9]-[A-Z0-9]{6,20}-[0-9]{6,20}-[a-z0-9]{20,100}", "Slack app tokens",
         inside_words=True),
    TokenFormat("slack webhook", (b"hooks.slack.com/",), "(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9+/]{43,80})",
         "address that accepts posts without a login", inside_words=True),
    TokenFormat("anthropic key", (b"sk-",), "ant-[a-z]{2,8}[0-9]{2}-[A-Za-z0-9_-]{40,200}", "Anthropic API and admin keys"),
    TokenFormat("openai key", (b"sk-",), "(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,250}", "OpenAI project and admin keys"),
    TokenFormat("openrouter key", (b"sk-",), "or-v1-[0-9a-f]{64}", "OpenRouter keys"),
    TokenFormat("openai key", (b"sk-",), f"(?={_ALNUM}{{0,40}}[0-9]){_ALNUM}{{32,200}}",
         "OpenAI keys of the first form; DeepSeek's and others' have it too", distinct=10),
    TokenFormat("google key", (b"AIza",), "[A-Za-z0-9_-]{35}", "Google API keys"),
    TokenFormat("google secret", (b"GOCSPX-",), "[A-Za-z0-9_-]{28}", "Google OAuth client secrets"),
    TokenFormat("stripe key", (b"sk_live_", b"rk_live_", b"sk_test_", b"rk_test_"),
         f"{_ALNUM}{{16,240}}", "Stripe secret and restricted keys; publishable ones are no secrets"),
    TokenFormat("npm token", (b"npm_",), f"(?={_ALNUM}{{0,35}}[0-9]){_ALNUM}{{36}}", "npm access tokens"),
    TokenFormat("pypi token", (b"pypi-AgE",), "(?:IcHlwaS5vcmc|NdGVzdC5weXBpLm9yZw)[A-Za-z0-9_-]{50,1000}",
         "PyPI and TestPyPI upload tokens"),
    TokenFormat("huggingface token", (b"hf_",), "(?=[a-z]{0,33}[A-Z])(?=[A-Z]{0,33}[a-z])[A-Za-z]{34}",
         "Hugging Face user tokens", distinct=10),
    TokenFormat("sendgrid key", (b"SG.",), r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}", "SendGrid API keys"),
    TokenFormat("twilio key", (b"SK",), "[0-9a-f]{32}", "Twilio API key ids"),
    TokenFormat("digitalocean token", (b"dop_v1_", b"doo_v1_"), "[a-f0-9]{64}", "DigitalOcean tokens"),
    TokenFormat("shopify token", (b"shpat_", b"shpca_", b"shpss_"), "[a-fA-F0-9]{32}", "Shopify app tokens"),
    TokenFormat("databricks token", (b"dapi",), "[a-f0-9]{32}(?:-[0-9])?", "Databricks personal access tokens"),
    TokenFormat("postman key", (b"PMAK-",), "[a-f0-9]{24}-[a-f0-9]{34}", "Postman API keys"),
    TokenFormat("linear key", (b"lin_api_",), f"{_ALNUM}{{40}}", "Linear API keys"),
    TokenFormat("vault token", (b"hvs.",), "[A-Za-z0-9_-]{24,300}", "HashiCorp Vault service tokens"),
    TokenFormat("docker token", (b"dckr_pat_",), "[A-Za-z0-9_-]{27,32}", "Docker Hub personal access tokens"),
    TokenFormat("grafana token", (b"glsa_",), f"{_ALNUM}{{32}}_[A-Fa-f0-9]{{8}}", "Grafana service account tokens"),
    TokenFormat("groq key", (b"gsk_",), f"{_ALNUM}{{52}}", "Groq API keys"),
    TokenFormat("rubygems token", (b"rubygems_",), "[a-f0-9]{48}", "RubyGems API tokens"),
    TokenFormat("jwt", (b"eyJ",), r"[A-Za-z0-9_-]{14,4000}\.eyJ[A-Za-z0-9_-]{14,8000}\.[A-Za-z0-9_-]{20,1400}",
         "signed JSON web tokens"),
    TokenFormat("azure key", (b"AccountKey=",), "(?P<secret>[A-Za-z0-9+/]{86}==)", "Azure storage account keys"),
    TokenFormat(
        "private key",
        (b"-----BEGIN ",),
        r"(?:[A-Z0-9]{2,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?P<secret>"
        rf"(?:{_GAP}[A-Za-z-]{{4,20}}: [A-Za-z0-9 ,.()/-]{{0,80}}){{0,4}}"
        rf"(?:{_GAP}[A-Za-z0-9+/=]{{20,4000}}){{1,400}}"
        rf"(?:(?:{_GAP}[A-Za-z0-9+/=]{{1,80}}){{0,2}}(?={_GAP}-----END))?)",
        "the body of a private key, PEM or PGP, also of one that is cut",
        inside_words=True,
        distinct=20,
    ),
    TokenFormat("url password", (b"://",), rf"{_USERINFO}{{0,80}}:(?P<secret>(?![${{<*]|%[sd(]){_USERINFO}{{6,256}})@",
         "the password in an address, https://user:password@host", inside_words=True, distinct=4),
    TokenFormat(
        "authorization",
        (b"uthorization",),
        r"[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?(?:[Bb]asic|[Bb]earer|[Tt]oken)[ \t]{1,4}"
        r"(?P<secret>(?=[A-Za-z._~+/=-]{0,200}[0-9])[A-Za-z0-9._~+/=-]{16,4000})",
        "the credentials of a request, in its Authorization header",
        inside_words=True,
    ),
)  # fmt: skip
"""The formats that are known, special ones before general ones. Each is as its provider or betterleaks' rules describe it."""

LONGEST = 1 << 16
"""Bytes of text that a pattern is applied to, from its literal on."""


MARKER = "[redacted:"
"""The beginning of every replacement; the kind and a bracket follow."""


def marker_of(kind: str) -> bytes:
    """Return the replacement of a secret of this kind: `[redacted:github token]`."""
    return f"{MARKER}{kind}]".encode("utf-8", "replace")


def is_redacted(text: str) -> bool:
    """Return whether something was replaced in a text."""
    return MARKER in text
