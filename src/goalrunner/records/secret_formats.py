"""What counts as a secret: values of the environment in every spelling, and tokens of known formats."""

from __future__ import annotations

import html
import json
import os
import re
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from urllib.parse import quote, quote_plus

from goalrunner.core.errors import UsageError
from goalrunner.core.field_types import secret_variable

MARKER = (
    "[redacted:"  # the beginning of every replacement; the kind and a bracket follow
)


def marker_of(kind: str) -> bytes:
    """Return the replacement of a secret of this kind: `[redacted:github token]`."""
    return f"{MARKER}{kind}]".encode("utf-8", "replace")


def is_redacted(text: str) -> bool:
    """Return whether something was replaced in a text."""
    return MARKER in text


CONTROL_SEQUENCE = re.compile(
    rb"\x1b(?:\[[0-?]{0,64}+[ -/]{0,4}+[@-~]"  # colours, movements of the cursor
    rb"|\][^\x07\x1b\r\n]{0,4096}+(?:\x07|\x1b\\)"  # titles, links
    rb"|[()*+#%][0-9A-Za-z@]|[78=>])|\r"  # character sets, modes
)


SHORTEST = 8  # characters that a secret has at least: a shorter value would be found in ordinary words

_SECRET_NAME = re.compile(
    r"PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN(?!IZ)|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|"
    r"(?:^|_)(?:KEYS?|AUTH|AUTHORIZATION|PASS|PWD|PAT|COOKIE|WEBHOOK)(?:_|$)"
)
_PLAIN_NAME = re.compile(
    r"(?:OLD)?PWD|.*_(?:PATHS?|FILES?|FILENAME|DIRS?|DIRECTORY|HOME|SOCK|SOCKET|HOST|HOSTNAME|PORT|USER|USERNAME|NAME|TYPE|MODE|"
    r"METHOD|BACKEND|ALGORITHM|LIMIT|COUNT|TTL|EXPIRES?|EXPIRY|ENABLED|DISABLED|ENDPOINT|REGION|HELPER)"
)
_PLAIN_WORDS = frozenset(
    """
    password passwort changeme postgres postgresql disabled required optional localhost undefined interactive keychain
    keyring kerberos negotiate workspace assistant function arguments tool_calls tool_call_id reasoning_content
    """.split()
)
"""Values that are names, not secrets, and the keys of chat messages."""


def secrets_among(
    environ: Mapping[str, str],
    names: Collection[str],
    extra: Iterable[str],
    allow: Collection[str],
) -> dict[str, str]:
    """Return the secrets of an environment by variable. Raise UsageError if a `$NAME` in `extra` is not set.

    Variables in `names`, and those that `extra` names, are secrets whatever their names look like.
    """
    found: dict[str, str] = {}
    for name, text in sorted(environ.items()):
        value = text.strip()
        is_path = os.path.isabs(value) and os.path.lexists(value)  # noqa: PTH117 - a value need not be a valid path
        is_named = name in names or _looks_secret(name, value)
        if is_named and len(value) >= SHORTEST and not is_path and value not in allow:
            found[name] = value
    for name in filter(None, map(secret_variable, extra)):
        if not environ.get(name, "").strip():
            raise UsageError(
                f"[redact] extra names ${name}, which is not set, so its value could not be redacted",
                f"export {name}=..., or remove it from [redact] extra",
            )
        found[name] = environ[name].strip()
    return found


def _looks_secret(name: str, value: str) -> bool:
    upper = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper().replace("-", "_")
    is_number = value.isdigit() and len(value) < 16
    is_name = _SECRET_NAME.search(upper) and not _PLAIN_NAME.fullmatch(upper)
    return bool(is_name) and not is_number and value.lower() not in _PLAIN_WORDS


def spellings(
    secrets: Mapping[str, str], allow: Collection[str] = ()
) -> dict[bytes, str]:
    """Return every spelling of every secret, and of the parts of those of several lines, with its variable.

    The longest comes first. None of them can include the beginning of a replacement, so that redacting twice changes
    nothing.
    """
    forms: dict[bytes, str] = {}
    for name, value in secrets.items():
        parts = (part.encode() for part in _parts(value) if part not in allow)
        for spelling in (*_forms(value), *parts):
            overlap = re.search(rb"\[redacted:|%s\Z" % _MARKER_BEGINS, spelling)
            form = spelling[: overlap.start()] if overlap else spelling
            if form and (_is_utf8(form) or (form[0] < 0x80 and form[-1] < 0x80)):
                forms.setdefault(form, name)
    return dict(sorted(forms.items(), key=lambda form: (-len(form[0]), form[0])))


_RUN = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_SHORTEST_RUN = 16
_RUN_SIGNS = re.compile(r"[+/_=-]+")
_WORD = re.compile(r"(?:[A-Z]?[a-z]{0,20}(?:[A-Z][a-z]{2,20})*|[A-Z]{0,20})[0-9]{0,4}")
_MEMBER = re.compile(
    r"^[\s{,]*[\"']?(?P<name>[\w.-]+)[\"']?[ \t]*[:=][ \t]*(?P<value>\S.*?)[ \t]*,?[ \t]*}?$",
    re.MULTILINE,
)
_NO_SECRET = re.compile(r"[a-z+]+://|-----")


def _parts(value: str) -> Iterator[str]:
    """Yield the parts of a credential of several lines, or in JSON, that are secrets where they are printed alone.

    These are runs of letters and digits that are not words, and the values of members with the name of a secret.
    """
    if "\n" not in value and not value.startswith(("{", "[")):
        return
    try:
        value = json.dumps(json.loads(value), indent=0, ensure_ascii=False)
    except (ValueError, RecursionError):
        pass  # of several lines, but not JSON
    text = re.sub(
        r"\\[nrt]|[\ud800-\udfff]", "\n", value
    )  # a key in JSON has escaped newlines
    for run in _RUN.findall(text):
        if len(run) >= _SHORTEST_RUN and not all(
            map(_WORD.fullmatch, _RUN_SIGNS.split(run))
        ):
            yield run
    for member in _MEMBER.finditer(text):
        secret = member["value"].strip("\"'")
        is_secret = _looks_secret(member["name"], secret) and not _NO_SECRET.match(
            secret
        )
        if is_secret and len(secret) >= SHORTEST:
            yield secret


_MARKER_BEGINS = b"(?:%s)" % b"|".join(
    re.escape(MARKER[:end].encode()) for end in range(len(MARKER) - 1, 0, -1)
)


def _forms(value: str) -> Iterator[bytes]:
    raw = value.encode("utf-8", "surrogateescape")
    yield from (
        raw,
        quote(raw, safe="").encode(),
        quote_plus(raw).encode(),
        quote(raw).encode(),
    )
    yield repr(raw)[2:-1].encode()
    if _is_utf8(raw):
        yield from (
            json.dumps(value, ensure_ascii=ascii_only)[1:-1].encode()
            for ascii_only in (True, False)
        )
        yield from (
            form.encode() for form in (*_quoted_forms(value), *_html_forms(value))
        )
    lines = CONTROL_SEQUENCE.sub(b"", raw)
    if len(lines) >= min(len(raw), SHORTEST):
        yield from (lines, lines.replace(b"\n", b"\r\n"))
    # Base64, and the part of a longer base64 text that only the value decides, at each of three offsets.
    inside = [
        b64encode(bytes(before) + raw)[
            -(-before * 8 // 6) : (before + len(raw)) * 8 // 6
        ]
        for before in range(3)
    ]
    for form in (b64encode(raw), *inside):
        if len(form) >= SHORTEST:
            yield from (form, form.translate(bytes.maketrans(b"+/", b"-_")))


_BACKSLASHED = re.compile(r"([ !\"$&'()*,;<>?\[\\\]^`{|}])")
_IN_DOUBLE_QUOTES = re.compile(r"([\"\\$`])")


def _quoted_forms(value: str) -> Iterator[str]:
    """Yield the spellings of Python's `repr` and of shells, without the outer quotes: `shlex`, `bash -x`, `printf %q`."""
    yield from (repr(value)[1:-1], ascii(value)[1:-1], repr(value + "'\"")[1:-4])
    yield from (value.replace("'", quoted) for quoted in ("'\"'\"'", "'\\''"))
    yield _BACKSLASHED.sub(r"\\\1", value)
    yield _IN_DOUBLE_QUOTES.sub(r"\\\1", value)


def _html_forms(value: str) -> Iterator[str]:
    """Yield the spellings of HTML and XML, in which each of the two quotes may be escaped in several ways."""
    text = html.escape(value, quote=False)
    for double, single in product(
        ('"', "&quot;", "&#34;"), ("'", "&#x27;", "&#39;", "&apos;")
    ):
        escaped = text.replace('"', double).replace("'", single)
        yield from (escaped, escaped.replace("\n", "&#10;"))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


_PLACEHOLDERS = frozenset(
    b"password passwort passwd changeme secret secrets postgres postgresql username example mypassword "
    b"yourpassword your-password your_password redacted x-oauth-basic x-access-token".split()
)
"""Passwords in addresses that are placeholders."""


@dataclass(frozen=True)
class TokenFormat:
    """One format: its `name` (the kind that is counted), the literals that begin it, and the pattern of what follows."""

    name: str
    begins: tuple[bytes, ...]
    rest: str
    """What follows the literal, as a regular expression over bytes; only a group named `secret` is replaced, if there is one."""
    inside_words: bool = False  # whether it may also follow a letter or a digit
    distinct: int = 6
    """Minimum number of different characters after the literal: `xxxxxxxx` is a placeholder, not a secret."""

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        literals = b"|".join(re.escape(begin) for begin in self.begins)
        return re.compile(b"(?:%s)%s" % (literals, self.rest.encode("ascii")))

    def find(self, data: bytes, place: int, end: int) -> tuple[int, int] | None:
        """Return the start and end of the secret in a token that begins at `place`; None for none and for a placeholder."""
        match = self._pattern.match(data, place, min(end, place + LONGEST))
        if match is None:
            return None
        grouped = "secret" in match.re.groupindex
        text = match["secret"] if grouped else match[0]
        body = text if grouped else text[min(map(len, self.begins)) :]
        is_placeholder = len(set(body)) < self.distinct or text.lower() in _PLACEHOLDERS
        return None if is_placeholder else match.span("secret" if grouped else 0)


_ALNUM = "[A-Za-z0-9]"
_GAP = r"(?:\s|\\[nrt]|[\"',+|-]){0,12}"
"""Text that may be between the lines of a key in source code, in JSON and in a patch."""
_USERINFO = r"[^\s/:@\"'<>\[\]{}`?#\\]"

FORMATS: tuple[TokenFormat, ...] = (
    # A key id has 20 characters. Ids that end with EXAMPLE are from Amazon's documentation, and are not replaced.
    TokenFormat("aws key", (b"AKIA", b"ASIA"), "(?![A-Z2-7]{9}EXAMPLE)[A-Z2-7]{16}"),
    TokenFormat("github token", (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"), f"{_ALNUM}{{36,255}}", inside_words=True),
    TokenFormat("github token", (b"github_pat_",), "[A-Za-z0-9_]{50,255}", inside_words=True),
    TokenFormat("gitlab token", (b"glpat-", b"gldt-", b"glrt-", b"glptt-"),
                r"[A-Za-z0-9_-]{20,300}(?:\.[0-9a-z]{2}\.?[0-9a-z]{7,9})?", inside_words=True),
    TokenFormat("slack token", (b"xox",), "[abprse]-[0-9]{1,14}-[A-Za-z0-9-]{16,250}", inside_words=True),
    TokenFormat("slack token", (b"xapp-",), "[0-9]-[A-Z0-9]{6,20}-[0-9]{6,20}-[a-z0-9]{20,100}", inside_words=True),
    TokenFormat("slack webhook", (b"hooks.slack.com/",),
                "(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9+/]{43,80})", inside_words=True),
    TokenFormat("anthropic key", (b"sk-",), "ant-[a-z]{2,8}[0-9]{2}-[A-Za-z0-9_-]{40,200}"),
    TokenFormat("openai key", (b"sk-",), "(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,250}"),
    TokenFormat("openrouter key", (b"sk-",), "or-v1-[0-9a-f]{64}"),
    # OpenAI's keys of the first form; DeepSeek's and others' have it too.
    TokenFormat("openai key", (b"sk-",), f"(?={_ALNUM}{{0,40}}[0-9]){_ALNUM}{{32,200}}", distinct=10),
    TokenFormat("google key", (b"AIza",), "[A-Za-z0-9_-]{35}"),
    TokenFormat("google secret", (b"GOCSPX-",), "[A-Za-z0-9_-]{28}"),
    # Publishable keys of Stripe are no secrets.
    TokenFormat("stripe key", (b"sk_live_", b"rk_live_", b"sk_test_", b"rk_test_"), f"{_ALNUM}{{16,240}}"),
    TokenFormat("npm token", (b"npm_",), f"(?={_ALNUM}{{0,35}}[0-9]){_ALNUM}{{36}}"),
    TokenFormat("pypi token", (b"pypi-AgE",), "(?:IcHlwaS5vcmc|NdGVzdC5weXBpLm9yZw)[A-Za-z0-9_-]{50,1000}"),
    TokenFormat("huggingface token", (b"hf_",), "(?=[a-z]{0,33}[A-Z])(?=[A-Z]{0,33}[a-z])[A-Za-z]{34}", distinct=10),
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
    TokenFormat("jwt", (b"eyJ",), r"[A-Za-z0-9_-]{14,4000}\.eyJ[A-Za-z0-9_-]{14,8000}\.[A-Za-z0-9_-]{20,1400}"),
    TokenFormat("azure key", (b"AccountKey=",), "(?P<secret>[A-Za-z0-9+/]{86}==)"),
    # The body of a private key, PEM or PGP, also of one that is cut.
    TokenFormat("private key", (b"-----BEGIN ",),
                r"(?:[A-Z0-9]{2,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?P<secret>"
                rf"(?:{_GAP}[A-Za-z-]{{4,20}}: [A-Za-z0-9 ,.()/-]{{0,80}}){{0,4}}"
                rf"(?:{_GAP}[A-Za-z0-9+/=]{{20,4000}}){{1,400}}"
                rf"(?:(?:{_GAP}[A-Za-z0-9+/=]{{1,80}}){{0,2}}(?={_GAP}-----END))?)", inside_words=True, distinct=20),
    # The password in an address, https://user:password@host.
    TokenFormat("url password", (b"://",), rf"{_USERINFO}{{0,80}}:(?P<secret>(?![${{<*]|%[sd(]){_USERINFO}{{6,256}})@",
                inside_words=True, distinct=4),
    # The credentials of a request, in its Authorization header.
    TokenFormat("authorization", (b"uthorization",),
                r"[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?(?:[Bb]asic|[Bb]earer|[Tt]oken)[ \t]{1,4}"
                r"(?P<secret>(?=[A-Za-z._~+/=-]{0,200}[0-9])[A-Za-z0-9._~+/=-]{16,4000})", inside_words=True),
)  # fmt: skip
"""The formats that are known, special ones before general ones. Each is as its provider or betterleaks' rules describe it."""

LONGEST = 1 << 16  # bytes of text that a pattern is applied to, from its literal on

WORD_BEFORE = re.compile(rb"(?<!\\[nrt])(?<!%[0-9A-Fa-f]{2})(?<=[A-Za-z0-9])")
"""The end of a letter or digit that belongs to a word, unlike that of the escapes `\\n` and `%3D`."""
