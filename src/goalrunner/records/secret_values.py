"""Which values are secrets, every spelling that they are found in, and text without control codes."""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import accumulate
from urllib.parse import quote, quote_plus

from goalrunner.records.token_formats import MARKER

_SEQUENCE = re.compile(
    rb"(\x1b(?:\[[0-?]{0,64}+[ -/]{0,4}+[@-~]"  # colours, movements of the cursor
    rb"|\][^\x07\x1b\r\n]{0,4096}+(?:\x07|\x1b\\)"  # titles, links
    rb"|[()*+#%][0-9A-Za-z@]|[78=>])|\r)"  # character sets, modes
)


class VisibleText:
    """Raw text, and `data`: the same without sequences of control codes and carriage returns."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        pieces = _SEQUENCE.split(raw)  # text and sequences by turns
        self.data = b"".join(pieces[::2])
        ends = list(accumulate(map(len, pieces)))
        # Where something was left out: in `data`, and its start and end in the raw text.
        self._places = list(accumulate(map(len, pieces[:-1:2])))
        self._starts, self._ends = ends[:-1:2], ends[1::2]

    def __contains__(self, place: object) -> bool:
        """Return whether something was left out before this place of `data`; a word may begin there."""
        if not isinstance(place, int):
            return False
        number = bisect_left(self._places, place)
        return number < len(self._places) and self._places[number] == place

    @property
    def has_commands(self) -> bool:
        """Whether text was left out that a sequence carries, such as the address of a link."""
        return b"\x1b]" in self._raw

    def raw_place(self, place: int) -> int:
        """Return where the byte at a place of `data` is in the raw text."""
        return place + self._shift(bisect_right(self._places, place))

    def raw_span(self, start: int, end: int) -> tuple[int, int]:
        """Return the part of the raw text for one of `data` that is not empty, without sequences around it."""
        return self.raw_place(start), self.raw_place(end - 1) + 1

    def place(self, raw_place: int) -> int:
        """Return how many bytes of `data` lie before a place of the raw text."""
        number = bisect_left(self._starts, raw_place)
        return max(self._places[number - 1], raw_place - self._shift(number)) if number else raw_place

    def _shift(self, number: int) -> int:
        """Return how many bytes were left out at the first places, `number` of them."""
        return self._ends[number - 1] - self._places[number - 1] if number else 0


def without_codes(raw: bytes) -> bytes:
    """Return text without sequences of control codes and carriage returns; line ends stay."""
    return _SEQUENCE.sub(b"", raw) if b"\x1b" in raw or b"\r" in raw else raw


def visible_text(raw: bytes) -> VisibleText | None:
    """Return the visible text; None where a search of the raw text finds the same.

    Line ends of two characters split no secret: they are known spellings of a line end.
    """
    if b"\x1b" in raw or raw.count(b"\r") != raw.count(b"\r\n"):
        return VisibleText(raw)
    return None


SHORTEST = 8
"""Characters that a secret has at least: a shorter value would be found in ordinary words."""

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
"""Values that are names, not secrets, and the keys of chat messages."""


def secrets_among(environ: Mapping[str, str], names: Collection[str], allow: Collection[str]) -> dict[str, str]:
    """Return the secrets of an environment by variable; those in `names` are secrets whatever their names look like."""
    return {
        name: value.strip()
        for name, value in sorted(environ.items())
        if (name in names or _looks_secret(name, value))
        and len(value.strip()) >= SHORTEST
        and not _is_path(value)
        and value.strip() not in allow
    }


def spellings(secrets: Mapping[str, str]) -> dict[bytes, str]:
    """Return every spelling of every secret with its variable, the longest first."""
    forms: dict[bytes, str] = {}
    for name, value in secrets.items():
        for needle in _forms(value):
            forms.setdefault(needle, name)
    return dict(sorted(forms.items(), key=lambda form: (-len(form[0]), form[0])))


def roots_of(forms: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return the forms that hold no other form: a text without them holds no form."""
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
    """Return whether a value is the path of an existing file (`GOOGLE_APPLICATION_CREDENTIALS`)."""
    return os.path.isabs(value) and os.path.lexists(value)  # noqa: PTH117 - a value need not be a valid path


def _forms(value: str) -> Iterator[bytes]:
    """Yield the spellings of a value. None of them can include the beginning of a replacement."""
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
    """Yield the value as base64, and the part of a longer base64 text that only the value decides, at each of three offsets."""
    whole = b64encode(raw)
    inside = [b64encode(bytes(before) + raw)[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6] for before in range(3)]
    for form in (whole, *inside):
        yield form
        yield form.translate(bytes.maketrans(b"+/", b"-_"))


def _without_marker(needle: bytes) -> bytes:
    """Return the form up to where a replacement could begin in it, so that redacting twice changes nothing."""
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
