"""Secrets whose values are known: variables of the environment, in every spelling."""

from __future__ import annotations

import html
import json
import os
import re
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import product
from urllib.parse import quote, quote_plus

from goalrunner.core.errors import UsageError
from goalrunner.core.field_types import secret_variable
from goalrunner.records.markers import MARKER

CONTROL_SEQUENCE = re.compile(
    rb"\x1b(?:\[[0-?]{0,64}+[ -/]{0,4}+[@-~]"  # colours, movements of the cursor
    rb"|\][^\x07\x1b\r\n]{0,4096}+(?:\x07|\x1b\\)"  # titles, links
    rb"|[()*+#%][0-9A-Za-z@]|[78=>])|\r"  # character sets, modes
)
"""A control sequence of a terminal, which may stand inside of a printed secret."""

SHORTEST = 8
"""Characters that a secret has at least: shorter values occur in ordinary words."""

_SECRET_NAME = re.compile(
    r"PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN(?!IZ)|CREDENTIAL|API_?KEY|ACCESS_?KEY"
    r"|PRIVATE_?KEY|(?:^|_)(?:KEYS?|AUTH|AUTHORIZATION|PASS|PWD|PAT|COOKIE|WEBHOOK)"
    r"(?:_|$)"
)
# Names such as SSH_KEY_PATH, whose values are no secrets.
_PLAIN_NAME = re.compile(
    r"(?:OLD)?PWD|.*_(?:PATHS?|FILES?|FILENAME|DIRS?|DIRECTORY|HOME|SOCK|SOCKET|HOST"
    r"|HOSTNAME|PORT|USER|USERNAME|NAME|TYPE|MODE|METHOD|BACKEND|ALGORITHM|LIMIT|COUNT"
    r"|TTL|EXPIRES?|EXPIRY|ENABLED|DISABLED|ENDPOINT|REGION|HELPER)"
)
# Values that are names, not secrets, and the keys of chat messages.
_PLAIN_WORDS = frozenset(
    """
    password passwort changeme postgres postgresql disabled required optional localhost
    undefined interactive keychain keyring kerberos negotiate workspace assistant
    function arguments tool_calls tool_call_id reasoning_content
    """.split()
)
# Longer numbers may be keys; shorter ones are ports, limits and the like.
_LONGEST_NUMBER = 15


def secrets_among(
    environ: Mapping[str, str],
    names: Collection[str],
    extra: Iterable[str],
    allow: Collection[str],
) -> dict[str, str]:
    """Return the secrets of an environment by variable.

    Variables in `names`, and those that `extra` names, are secrets whatever their names
    look like. Raise UsageError if a `$NAME` in `extra` is not set.
    """
    secrets: dict[str, str] = {}
    for name, text in sorted(environ.items()):
        value = text.strip()
        if len(value) < SHORTEST or value in allow:
            continue
        if name not in names and not _looks_secret(name, value):
            continue
        # A value need not be a valid path, for which the method of Path may raise.
        is_path = os.path.isabs(value) and os.path.lexists(value)  # noqa: PTH117
        if not is_path:
            secrets[name] = value
    for name in filter(None, map(secret_variable, extra)):
        value = environ.get(name, "").strip()
        if not value:
            raise UsageError(
                f"[redact] extra names ${name}, which is not set, "
                "so its value could not be redacted",
                f"export {name}=..., or remove it from [redact] extra",
            )
        secrets[name] = value
    return secrets


def _looks_secret(name: str, value: str) -> bool:
    """Return whether a variable is a secret by its name, and its value may be one."""
    # From camel case, as members of JSON have it.
    with_underscores = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    upper = with_underscores.upper().replace("-", "_")
    if not _SECRET_NAME.search(upper) or _PLAIN_NAME.fullmatch(upper):
        return False
    is_number = value.isdigit() and len(value) <= _LONGEST_NUMBER
    return not is_number and value.lower() not in _PLAIN_WORDS


# A text that ends with this may continue to a marker.
_MARKER_BEGINS = b"(?:%s)" % b"|".join(
    re.escape(MARKER[:end].encode()) for end in range(len(MARKER) - 1, 0, -1)
)
_MARKER_OVERLAP = re.compile(rb"\[redacted:|%s\Z" % _MARKER_BEGINS)


def spellings(
    secrets: Mapping[str, str], allow: Collection[str] = ()
) -> dict[bytes, str]:
    """Return every spelling of every secret with its variable, the longest first.

    Secrets of several lines have spellings of their parts as well. None of them can
    include the beginning of a replacement, so that redacting twice changes nothing.
    """
    variables: dict[bytes, str] = {}
    for name, value in secrets.items():
        parts = (part.encode() for part in _parts(value) if part not in allow)
        for spelling in (*_forms(value), *parts):
            overlap = _MARKER_OVERLAP.search(spelling)
            form = spelling[: overlap.start()] if overlap else spelling
            if form and _is_whole_characters(form):
                variables.setdefault(form, name)
    # The longest first, because a short one may be a part of it.
    order = sorted(variables, key=lambda form: (-len(form), form))
    return {form: variables[form] for form in order}


def _is_whole_characters(form: bytes) -> bool:
    """Return whether replacing a spelling leaves valid UTF-8 valid."""
    return _is_utf8(form) or (form[0] < 0x80 and form[-1] < 0x80)


_RUN = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_SHORTEST_RUN = 16
_RUN_SIGNS = re.compile(r"[+/_=-]+")
_WORD = re.compile(r"(?:[A-Z]?[a-z]{0,20}(?:[A-Z][a-z]{2,20})*|[A-Z]{0,20})[0-9]{0,4}")
_MEMBER = re.compile(
    r"^[\s{,]*[\"']?(?P<name>[\w.-]+)[\"']?[ \t]*[:=]"
    r"[ \t]*(?P<value>\S.*?)[ \t]*,?[ \t]*}?$",
    re.MULTILINE,
)
# Values of members that are addresses, or the lines around a key.
_NO_SECRET = re.compile(r"[a-z+]+://|-----")


def _parts(value: str) -> Iterator[str]:
    """Yield the parts of a credential that are secrets where they are printed alone.

    The credential has several lines, or is JSON. The parts are runs of letters and
    digits that are not words, and values of members with the name of a secret.
    """
    if "\n" not in value and not value.startswith(("{", "[")):
        return
    try:
        value = json.dumps(json.loads(value), indent=0, ensure_ascii=False)
    except (ValueError, RecursionError):
        # Several lines, but not JSON.
        pass
    # A key in JSON has escaped newlines.
    text = re.sub(r"\\[nrt]|[\ud800-\udfff]", "\n", value)
    for run in _RUN.findall(text):
        are_words = all(map(_WORD.fullmatch, _RUN_SIGNS.split(run)))
        if len(run) >= _SHORTEST_RUN and not are_words:
            yield run
    for member in _MEMBER.finditer(text):
        secret = member["value"].strip("\"'")
        if len(secret) < SHORTEST or _NO_SECRET.match(secret):
            continue
        if _looks_secret(member["name"], secret):
            yield secret


def _forms(value: str) -> Iterator[bytes]:
    """Yield the spellings of a value, in any order, some of them equal."""
    raw = value.encode("utf-8", "surrogateescape")
    yield raw
    yield quote(raw, safe="").encode()
    yield quote_plus(raw).encode()
    yield quote(raw).encode()
    yield repr(raw)[2:-1].encode()
    if _is_utf8(raw):
        yield json.dumps(value, ensure_ascii=True)[1:-1].encode()
        yield json.dumps(value, ensure_ascii=False)[1:-1].encode()
        for form in (*_quoted_forms(value), *_html_forms(value)):
            yield form.encode()
    printed = CONTROL_SEQUENCE.sub(b"", raw)
    if len(printed) >= min(len(raw), SHORTEST):
        yield printed
        yield printed.replace(b"\n", b"\r\n")
    yield from _base64_forms(raw)


def _base64_forms(raw: bytes) -> Iterator[bytes]:
    """Yield base64 of a value, and the part of a longer text that only it decides.

    The value may begin at each of three offsets of the longer text.
    """
    forms = [b64encode(raw)]
    for offset in range(3):
        encoded = b64encode(bytes(offset) + raw)
        # Six bits of the text are one character; the first and last may be shared.
        first = -(-offset * 8 // 6)
        last = (offset + len(raw)) * 8 // 6
        forms.append(encoded[first:last])
    for form in forms:
        if len(form) >= SHORTEST:
            yield form
            # The variant for addresses.
            yield form.translate(bytes.maketrans(b"+/", b"-_"))


_BACKSLASHED = re.compile(r"([ !\"$&'()*,;<>?\[\\\]^`{|}])")
_IN_DOUBLE_QUOTES = re.compile(r"([\"\\$`])")


def _quoted_forms(value: str) -> Iterator[str]:
    """Yield the spellings of Python's `repr` and of shells, without the outer quotes.

    The shells are those of `shlex`, `bash -x` and `printf %q`.
    """
    yield repr(value)[1:-1]
    yield ascii(value)[1:-1]
    # With both quotes in it, `repr` escapes single ones.
    yield repr(value + "'\"")[1:-4]
    yield value.replace("'", "'\"'\"'")
    yield value.replace("'", "'\\''")
    yield _BACKSLASHED.sub(r"\\\1", value)
    yield _IN_DOUBLE_QUOTES.sub(r"\\\1", value)


def _html_forms(value: str) -> Iterator[str]:
    """Yield the spellings of HTML and XML.

    Each of the two quotes may be escaped in several ways.
    """
    text = html.escape(value, quote=False)
    for double, single in product(
        ('"', "&quot;", "&#34;"), ("'", "&#x27;", "&#39;", "&apos;")
    ):
        escaped = text.replace('"', double).replace("'", single)
        yield escaped
        yield escaped.replace("\n", "&#10;")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
