"""Secrets out, before anything is written. Owns which values are secrets and every form they are found in.

A secret is the value of an environment variable whose name says so. It is replaced wherever it stands, as it is and as
JSON, a URL or base64 would write it, by `[redacted:NAME]`. Redacting twice changes nothing.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

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
_MARKER = "[redacted:"


class Redactor:
    """Replaces secrets. `environ` is searched by name; the variables in `names` are secrets whatever they are called."""

    def __init__(self, environ: Mapping[str, str], *, names: Iterable[str] = ()) -> None:
        named = frozenset(names)
        secrets = {
            name: value.strip()
            for name, value in sorted(environ.items())
            if (name in named or _looks_secret(name, value)) and len(value.strip()) >= SHORTEST and not _is_path(value)
        }
        forms: dict[bytes, str] = {}
        for name, value in secrets.items():
            for needle in _forms(value):
                forms.setdefault(needle, name)
        self._forms = dict(sorted(forms.items(), key=lambda form: (-len(form[0]), form[0])))
        self._names = tuple(sorted(secrets))
        self._markers = b"|".join(re.escape(_replacement(name)) for name in self._names)
        longest_marker = max((len(_replacement(name)) for name in self._names), default=0)
        self._longest = max([len(needle) for needle in self._forms] + [longest_marker])

    @property
    def names(self) -> tuple[str, ...]:
        """The variables whose values are replaced."""
        return self._names

    def text(self, text: str) -> str:
        """`text` without secrets."""
        return self.data(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def data(self, data: bytes) -> bytes:
        """`data` without secrets. What was valid UTF-8 still is."""
        found = self._found_in(data)
        return self._pattern(found).sub(self._replace, data) if found else data

    def json(self, value: Any) -> Any:
        """A JSON value, every string and key in it without secrets."""
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {self.json(key): self.json(item) for key, item in value.items()}
            case list() | tuple():
                return [self.json(item) for item in value]
            case _:
                return value

    def chunks(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """A stream without secrets, those that lie across two chunks too. Holds one chunk and the longest secret."""
        kept = b""
        for chunk in chunks:
            kept += chunk
            done, kept = self._settled(kept)
            if done:
                yield done
        if kept:
            yield self.data(kept)

    def _settled(self, data: bytes) -> tuple[bytes, bytes]:
        """What can be given away, redacted, and the rest, in which a secret may have begun."""
        cut = max(0, len(data) - self._longest)
        found = self._found_in(data)
        if not found:
            return data[:cut], data[cut:]
        parts: list[bytes] = []
        place = 0
        for match in self._pattern(found).finditer(data):
            if match.start() >= cut:
                break
            parts += data[place : match.start()], self._replace(match)
            place = match.end()
        end = max(cut, place)
        return b"".join((*parts, data[place:end])), data[end:]

    def _found_in(self, data: bytes) -> tuple[bytes, ...]:
        """The forms that occur at all: a plain search is a hundred times faster than a pattern of all of them."""
        return tuple(needle for needle in self._forms if needle in data)

    def _pattern(self, needles: tuple[bytes, ...]) -> re.Pattern[bytes]:
        return re.compile(b"(?:%s)|(%s)" % (self._markers, b"|".join(map(re.escape, needles))))

    def _replace(self, match: re.Match[bytes]) -> bytes:
        needle = match.group(1)
        if needle is None:  # redacted before
            return match.group()
        return _replacement(self._forms[needle])


def is_redacted(text: str) -> bool:
    """Whether something was replaced in a text."""
    return _MARKER in text


def _replacement(name: str) -> bytes:
    return f"{_MARKER}{name}]".encode("utf-8", "replace")


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
    spellings += _base64_forms(raw)
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
    marker = _MARKER.encode()
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
