"""Which values are secrets, and every spelling that a value is found in. Owns names and forms; replaces nothing."""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus

from goalrunner.redaction.marker import MARKER
from goalrunner.redaction.visible import VisibleText

SHORTEST = 8
"""Characters below which a value is never taken for a secret: it would be found in half of all words."""

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
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Values that name something instead of hiding it, and the keys of chat messages."""


def secrets_among(environ: Mapping[str, str], names: Collection[str], allow: Collection[str]) -> dict[str, str]:
    """The secrets of an environment, by variable. Those in `names` are secrets whatever they are called."""
    return {
        name: value.strip()
        for name, value in sorted(environ.items())
        if (name in names or _looks_secret(name, value))
        and len(value.strip()) >= SHORTEST
        and not _is_path(value)
        and value.strip() not in allow
    }


def spellings(secrets: Mapping[str, str]) -> dict[bytes, str]:
    """Every spelling of every secret and whose it is, the longest first."""
    forms: dict[bytes, str] = {}
    for name, value in secrets.items():
        for needle in _forms(value):
            forms.setdefault(needle, name)
    return dict(sorted(forms.items(), key=lambda form: (-len(form[0]), form[0])))


def roots_of(forms: Iterable[bytes]) -> tuple[bytes, ...]:
    """The forms that hold no other form: where none of them stands, no form does."""
    roots: list[bytes] = []
    for form in sorted(forms, key=len):
        if not any(root in form for root in roots):
            roots.append(form)
    return tuple(roots)


def _looks_secret(name: str, value: str) -> bool:
    upper = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper().replace("-", "_")
    if _SECRET_NAME.search(upper) is None or _PLAIN_NAME.fullmatch(upper) is not None:
        return False
    value = value.strip()
    is_number = value.isdigit() and len(value) < 16
    return not (is_number or value.lower() in _PLAIN_WORDS)


def _is_path(value: str) -> bool:
    """Whether a value only says where something is (`GOOGLE_APPLICATION_CREDENTIALS`)."""
    return os.path.isabs(value) and os.path.lexists(value)  # noqa: PTH117 - a value need not be a valid path


def _forms(value: str) -> Iterator[bytes]:
    """The spellings of a value, longest not first. None can swallow the beginning of a replacement."""
    raw = value.encode("utf-8", "surrogateescape")
    spellings = [raw, quote(raw, safe="").encode(), quote_plus(raw).encode(), quote(raw).encode()]
    if raw.isascii() or _is_utf8(raw):
        spellings += [json.dumps(value, ensure_ascii=ascii_only)[1:-1].encode() for ascii_only in (True, False)]
    lines = VisibleText(raw).data
    if len(lines) >= min(len(raw), SHORTEST):
        spellings += [lines, lines.replace(b"\n", b"\r\n")]
    spellings += [form for form in _base64_forms(raw) if len(form) >= SHORTEST]
    for spelling in spellings:
        needle = _without_marker(spelling)
        if needle and (_is_utf8(needle) or (needle[0] < 0x80 and needle[-1] < 0x80)):
            yield needle


def _base64_forms(raw: bytes) -> Iterator[bytes]:
    """As base64 of its own, and as part of something longer: what surely stems from the value, at each of three places."""
    whole = b64encode(raw)
    inside = [b64encode(bytes(before) + raw)[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6] for before in range(3)]
    for form in (whole, *inside):
        yield form
        yield form.translate(bytes.maketrans(b"+/", b"-_"))


def _without_marker(needle: bytes) -> bytes:
    """Cut before the place where a replacement could begin inside it, so that redacting twice changes nothing."""
    marker = MARKER.encode()
    for place in range(len(needle)):
        if needle.startswith(marker, place) or marker.startswith(needle[place:]):
            return needle[:place]
    return needle


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
