"""Secrets with a known format: the tokens of providers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

LONGEST = 1 << 16
"""Bytes of text that a pattern is applied to, from its literal on."""

WORD_BEFORE = re.compile(rb"(?<!\\[nrt])(?<!%[0-9A-Fa-f]{2})(?<=[A-Za-z0-9])")
"""The end of a letter or digit that belongs to a word.

The letters of the escapes `\\n` and `%3D` do not.
"""

# Passwords in addresses that are placeholders.
_PLACEHOLDERS = frozenset(
    b"""
    password passwort passwd changeme secret secrets postgres postgresql username
    example mypassword yourpassword your-password your_password redacted x-oauth-basic
    x-access-token
    """.split()
)


@dataclass(frozen=True)
class TokenFormat:
    """The format of a kind of token."""

    name: str
    """The kind that is counted."""
    begins: tuple[bytes, ...]
    """The literals that begin a token."""
    rest: str
    """What follows the literal, as a regular expression over bytes.

    Only a group named `secret` is replaced, if there is one.
    """
    inside_words: bool = False
    """Whether it may also follow a letter or a digit."""
    distinct: int = 6
    """Minimum number of different characters after the literal.

    `xxxxxxxx` is a placeholder, not a secret.
    """

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        literals = b"|".join(re.escape(begin) for begin in self.begins)
        return re.compile(b"(?:%s)%s" % (literals, self.rest.encode("ascii")))

    def find(self, data: bytes, place: int, end: int) -> tuple[int, int] | None:
        """Return the start and end of the secret in a token that begins at `place`.

        None if there is no token, or only a placeholder.
        """
        match = self._pattern.match(data, place, min(end, place + LONGEST))
        if match is None:
            return None
        group: str | int = "secret" if "secret" in match.re.groupindex else 0
        secret = match[group]
        # Without a group, the literal is a part of the secret.
        literal_length = 0 if group else min(map(len, self.begins))
        is_varied = len(set(secret[literal_length:])) >= self.distinct
        if not is_varied or secret.lower() in _PLACEHOLDERS:
            return None
        return match.span(group)


_ALNUM = "[A-Za-z0-9]"
# Text that may be between the lines of a key in source code, in JSON and in a patch.
_GAP = r"(?:\s|\\[nrt]|[\"',+|-]){0,12}"
_USERINFO = r"[^\s/:@\"'<>\[\]{}`?#\\]"

# Special formats before general ones. Each is as its provider or betterleaks' rules
# describe it.
FORMATS: tuple[TokenFormat, ...] = (
    # A key id has 20 characters. Ids that end with EXAMPLE are from Amazon's
    # documentation, and are not replaced.
    TokenFormat("aws key", (b"AKIA", b"ASIA"), "(?![A-Z2-7]{9}EXAMPLE)[A-Z2-7]{16}"),
    TokenFormat(
        "github token",
        (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"),
        f"{_ALNUM}{{36,255}}",
        inside_words=True,
    ),
    TokenFormat(
        "github token", (b"github_pat_",), "[A-Za-z0-9_]{50,255}", inside_words=True
    ),
    TokenFormat(
        "gitlab token",
        (b"glpat-", b"gldt-", b"glrt-", b"glptt-"),
        r"[A-Za-z0-9_-]{20,300}(?:\.[0-9a-z]{2}\.?[0-9a-z]{7,9})?",
        inside_words=True,
    ),
    TokenFormat(
        "slack token",
        (b"xox",),
        "[abprse]-[0-9]{1,14}-[A-Za-z0-9-]{16,250}",
        inside_words=True,
    ),
    TokenFormat(
        "slack token",
        (b"xapp-",),
        "[0-9]-[A-Z0-9]{6,20}-[0-9]{6,20}-[a-z0-9]{20,100}",
        inside_words=True,
    ),
    TokenFormat(
        "slack webhook",
        (b"hooks.slack.com/",),
        "(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9+/]{43,80})",
        inside_words=True,
    ),
    TokenFormat(
        "anthropic key", (b"sk-",), "ant-[a-z]{2,8}[0-9]{2}-[A-Za-z0-9_-]{40,200}"
    ),
    TokenFormat(
        "openai key", (b"sk-",), "(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,250}"
    ),
    TokenFormat("openrouter key", (b"sk-",), "or-v1-[0-9a-f]{64}"),
    # OpenAI's keys of the first form; DeepSeek's and others' have it too.
    TokenFormat(
        "openai key",
        (b"sk-",),
        f"(?={_ALNUM}{{0,40}}[0-9]){_ALNUM}{{32,200}}",
        distinct=10,
    ),
    TokenFormat("google key", (b"AIza",), "[A-Za-z0-9_-]{35}"),
    TokenFormat("google secret", (b"GOCSPX-",), "[A-Za-z0-9_-]{28}"),
    # Publishable keys of Stripe are no secrets.
    TokenFormat(
        "stripe key",
        (b"sk_live_", b"rk_live_", b"sk_test_", b"rk_test_"),
        f"{_ALNUM}{{16,240}}",
    ),
    TokenFormat("npm token", (b"npm_",), f"(?={_ALNUM}{{0,35}}[0-9]){_ALNUM}{{36}}"),
    TokenFormat(
        "pypi token",
        (b"pypi-AgE",),
        "(?:IcHlwaS5vcmc|NdGVzdC5weXBpLm9yZw)[A-Za-z0-9_-]{50,1000}",
    ),
    TokenFormat(
        "huggingface token",
        (b"hf_",),
        "(?=[a-z]{0,33}[A-Z])(?=[A-Z]{0,33}[a-z])[A-Za-z]{34}",
        distinct=10,
    ),
    TokenFormat("sendgrid key", (b"SG.",), r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    TokenFormat("twilio key", (b"SK",), "[0-9a-f]{32}"),
    TokenFormat("digitalocean token", (b"dop_v1_", b"doo_v1_"), "[a-f0-9]{64}"),
    TokenFormat("shopify token", (b"shpat_", b"shpca_", b"shpss_"), "[a-fA-F0-9]{32}"),
    TokenFormat("databricks token", (b"dapi",), "[a-f0-9]{32}(?:-[0-9])?"),
    TokenFormat("postman key", (b"PMAK-",), "[a-f0-9]{24}-[a-f0-9]{34}"),
    TokenFormat("linear key", (b"lin_api_",), f"{_ALNUM}{{40}}"),
    TokenFormat("vault token", (b"hvs.",), "[A-Za-z0-9_-]{24,300}"),
    TokenFormat("docker token", (b"dckr_pat_",), "[A-Za-z0-9_-]{27,32}"),
    TokenFormat("grafana token", (b"glsa_",), f"{_ALNUM}{{32}}_[A-Fa-f0-9]{{8}}"),
    TokenFormat("groq key", (b"gsk_",), f"{_ALNUM}{{52}}"),
    TokenFormat("rubygems token", (b"rubygems_",), "[a-f0-9]{48}"),
    TokenFormat(
        "jwt",
        (b"eyJ",),
        r"[A-Za-z0-9_-]{14,4000}\.eyJ[A-Za-z0-9_-]{14,8000}\.[A-Za-z0-9_-]{20,1400}",
    ),
    TokenFormat("azure key", (b"AccountKey=",), "(?P<secret>[A-Za-z0-9+/]{86}==)"),
    # The body of a private key, PEM or PGP, also of one that is cut.
    TokenFormat(
        "private key",
        (b"-----BEGIN ",),
        r"(?:[A-Z0-9]{2,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?P<secret>"
        rf"(?:{_GAP}[A-Za-z-]{{4,20}}: [A-Za-z0-9 ,.()/-]{{0,80}}){{0,4}}"
        rf"(?:{_GAP}[A-Za-z0-9+/=]{{20,4000}}){{1,400}}"
        rf"(?:(?:{_GAP}[A-Za-z0-9+/=]{{1,80}}){{0,2}}(?={_GAP}-----END))?)",
        inside_words=True,
        distinct=20,
    ),
    # The password in an address, https://user:password@host.
    TokenFormat(
        "url password",
        (b"://",),
        rf"{_USERINFO}{{0,80}}:(?P<secret>(?![${{<*]|%[sd(]){_USERINFO}{{6,256}})@",
        inside_words=True,
        distinct=4,
    ),
    # The credentials of a request, in its Authorization header.
    TokenFormat(
        "authorization",
        (b"uthorization",),
        r"[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?(?:[Bb]asic|[Bb]earer|[Tt]oken)[ \t]{1,4}"
        r"(?P<secret>(?=[A-Za-z._~+/=-]{0,200}[0-9])[A-Za-z0-9._~+/=-]{16,4000})",
        inside_words=True,
    ),
)
