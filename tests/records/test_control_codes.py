"""A secret that colours, links or carriage returns split is replaced; other text with them stays as it is."""

from __future__ import annotations

import re
import time
from statistics import median

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from goalrunner.records.redaction import Redactor

VALUE = "hunter2-Zür/hunter3"
KEY = "line one of it\nline two of it"
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5"
REDACTOR = Redactor({"MY_SECRET": VALUE, "PEM_KEY": KEY}, extra=["/ACME-[0-9]{4}/"])

SECRETS = {
    VALUE: "MY_SECRET",
    KEY: "PEM_KEY",
    TOKEN: "github token",
    "ACME-1234": "extra",
}

CODES = [
    "\x1b[31m",
    "\x1b[0m",
    "\x1b[m\x1b[K",
    "\x1b[1;38;5;208m",
    "\x1b(B",
    "\r",
    "\x1b]8;;http://a/b\x1b\\",
    "\x1b]0;title\x07",
]
_CODE = re.compile(r"\x1b\[[0-9;]*[mK]|\x1b\(B|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\r")

codes = st.lists(st.sampled_from(CODES), max_size=3).map("".join)
plain = st.lists(
    st.sampled_from(
        [
            "x",
            "ok ",
            "ä",
            "\n",
            "\r\n",
            "12%",
            "[",
            "]",
            "\x1b",
            "\x1b[",
            "\x1b]",
            "m",
            "sk-",
            "://",
            *CODES,
        ]
    )
)


@st.composite
def split(draw: st.DrawFn, secret: str) -> str:
    """The secret with codes between some of its characters, and around it."""
    return "".join(draw(codes) + letter for letter in secret) + draw(codes)


@pytest.mark.parametrize("secret", SECRETS)
@given(data=st.data())
@settings(deadline=None)
def test_a_secret_that_codes_split_never_survives(
    secret: str, data: st.DataObject
) -> None:
    before, after = (
        data.draw(codes.map("log: {} ".format)),
        data.draw(codes.map(" {} end\n".format)),
    )
    written = before + data.draw(split(secret)) + after
    size = data.draw(st.integers(1, 80))

    redacted = REDACTOR.text(written)

    assert secret not in _CODE.sub("", redacted)
    assert f"[redacted:{SECRETS[secret]}]" in redacted
    assert redacted.startswith(before)
    assert redacted.endswith(after)
    assert REDACTOR.text(redacted) == redacted
    chunks = [
        written.encode()[place : place + size]
        for place in range(0, len(written.encode()), size)
    ]
    assert b"".join(REDACTOR.chunks(chunks)).decode() == redacted


@given(parts=plain, size=st.integers(1, 40))
@example(parts=["\x1b", "[", "x"], size=1)
@settings(deadline=None)
def test_text_without_secrets_stays_byte_for_byte(parts: list[str], size: int) -> None:
    data = "".join(parts).encode()
    assert REDACTOR.data(data) == data
    assert (
        b"".join(
            REDACTOR.chunks(
                data[place : place + size] for place in range(0, len(data), size)
            )
        )
        == data
    )


@pytest.mark.parametrize("filler", ["\x1b[32m.\x1b[0m", "x\r", "\x1b[0m"])
def test_a_split_secret_is_found_wherever_a_long_stream_is_cut(filler: str) -> None:
    secret = "\x1b[1m".join(VALUE)
    data = "".join(
        filler * number + secret for number in (0, 9_000, 70_000, 11, 30_000)
    ).encode()
    redacted = b"".join(
        REDACTOR.chunks(
            data[place : place + 30_011] for place in range(0, len(data), 30_011)
        )
    )
    assert redacted == data.replace(secret.encode(), b"[redacted:MY_SECRET]")


def test_a_stream_of_codes_alone_is_not_gathered() -> None:
    stream = REDACTOR.chunks(b"\x1b[0m" * 25_000 for _ in range(1000))
    assert sum(len(next(stream)) for _ in range(3)) > 50_000


@pytest.mark.parametrize(
    ("written", "left"),
    [
        (f"\x1b[31m{TOKEN}", "\x1b[31m[redacted:github token]"),
        (
            f"\x1b[01;31m\x1b[Kghp_\x1b[m\x1b[K{TOKEN[4:]}\n",
            "\x1b[01;31m\x1b[K[redacted:github token]\n",
        ),
        (f"progress\r{TOKEN}", "progress\r[redacted:github token]"),
        (KEY.replace("\n", "\r\n"), "[redacted:PEM_KEY]"),
        (
            "\x1b]8;;https://me:s3cr3t-pass@host/\x1b\\link",
            "\x1b]8;;https://me:[redacted:url password]@host/\x1b\\link",
        ),
        (f"\x1b]0;{VALUE}\x07$ ", "\x1b]0;[redacted:MY_SECRET]\x07$ "),
    ],
)
def test_where_codes_stand_is_kept(written: str, left: str) -> None:
    assert REDACTOR.text(written) == left


def test_a_value_with_carriage_returns_is_found_without_them() -> None:
    redactor = Redactor({"A_KEY": "first line\r\nsecond line"})
    for written in (
        "first line\r\nsecond line",
        "first line\nsecond line",
        "first\x1b[0m line\r\nsecond\r line",
    ):
        assert redactor.text(f"<{written}>") == "<[redacted:A_KEY]>"


@pytest.mark.bench
def test_coloured_text_is_redacted_about_as_fast_as_plain_text() -> None:
    plain_text = (
        b"tests/test_module.py::test_case_of_something PASSED                     [ 12%]\n"
        * 100_000
    )
    coloured = plain_text.replace(b"PASSED", b"\x1b[32mPASSED\x1b[0m\x1b[32m")

    def seconds(data: bytes) -> float:
        began = time.perf_counter()
        assert REDACTOR.data(data) == data
        return time.perf_counter() - began

    pairs = [(seconds(coloured), seconds(plain_text)) for _ in range(3)]
    assert median(one / other for one, other in pairs) < 3
