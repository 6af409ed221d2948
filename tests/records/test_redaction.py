"""Secrets are replaced, in every spelling and across every boundary; nothing else is touched."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
import subprocess
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from xml.sax import saxutils

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from goalrunner.records import redaction
from goalrunner.records.redaction import Redactor

SECRET = 'sk-Zür/+"\\ich 42'
TOKEN = "ghp_0123456789abcdef"
REDACTOR = Redactor(
    {"MY_API_KEY": SECRET, "GITHUB_TOKEN": TOKEN, "HOME": "/home/somebody"}
)


@pytest.mark.parametrize(
    "name",
    [
        "MY_API_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "PGPASSWORD", "MYSQL_PWD", "client_secret", "npm_config__authToken",
        "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "SSH_PASSPHRASE", "BASIC_AUTH", "SIGNING_KEY", "apikey",
        "SLACK_WEBHOOK_URL", "GITHUB_PAT", "X-Api-Key", "OPENAI_API_KEY_2",
    ],
)  # fmt: skip
def test_a_name_that_tells_of_a_secret_makes_one(name: str) -> None:
    assert (
        Redactor({name: "hunter2hunter2"}).text("it is hunter2hunter2.")
        == f"it is [redacted:{name}]."
    )


@pytest.mark.parametrize(
    "name",
    [
        "SSH_AUTH_SOCK", "KEYBOARD", "MONKEY", "AUTHOR", "GIT_AUTHOR_NAME", "PWD", "OLDPWD", "TOKENIZERS_PARALLELISM",
        "SECRETS_DIR", "PASSWORD_FILE", "KEY_PATH", "COMPASS", "PATH", "AUTH_TYPE", "TOKEN_LIMIT", "GIT_ASKPASS",
    ],
)  # fmt: skip
def test_a_name_that_tells_of_none_makes_none(name: str) -> None:
    assert Redactor({name: "hunter2hunter2"}).names == ()


@pytest.mark.parametrize(
    "value", ["", "short", "1234567", "123456789", "password", "Disabled", "  padded  "]
)
def test_a_value_that_hides_nothing_is_none(value: str) -> None:
    assert Redactor({"MY_SECRET": value}).names == ()


def test_a_path_that_exists_is_none(tmp_path: Path) -> None:
    assert Redactor({"GOOGLE_CREDENTIALS": str(tmp_path)}).names == ()
    assert Redactor({"GOOGLE_CREDENTIALS": "/no/such/place"}).names == (
        "GOOGLE_CREDENTIALS",
    )


def test_a_name_can_be_added() -> None:
    redactor = Redactor(
        {"GATEWAY": "hunter2hunter2", "OTHER": "something else"},
        names=["GATEWAY", "UNSET"],
    )

    assert redactor.names == ("GATEWAY",)


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        urllib.parse.quote(SECRET),
        urllib.parse.quote(SECRET, safe=""),
        urllib.parse.quote_plus(SECRET),
        base64.b64encode(SECRET.encode()).decode(),
    ],
)
def test_every_spelling_is_found(written: str) -> None:
    assert REDACTOR.text(f"<{written}>") == "<[redacted:MY_API_KEY]>"


QUOTED = 'it\'s "a" $x `y` \\ <&> {z}, zür!'


@pytest.mark.parametrize(
    "value",
    [
        QUOTED,
        "don't tell",
        'say "x" <now>',
        "one\\two\\three",
        'it\'s one\n"line" and two',
    ],
)
@pytest.mark.parametrize(
    "spelling",
    [
        repr,
        ascii,
        lambda text: repr(text.encode()),
        lambda text: repr([text, "'"]),
        shlex.quote,
        html.escape,
        lambda text: html.escape(text, quote=False),
        lambda text: (
            html.escape(text).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
        ),
        saxutils.quoteattr,
    ],
    ids=[
        "repr",
        "ascii",
        "bytes",
        "list",
        "shlex",
        "html",
        "html text",
        "jinja",
        "xml",
    ],
)
def test_spellings_of_programs_are_found(
    value: str, spelling: Callable[[str], str]
) -> None:
    redacted = Redactor({"MY_SECRET": value}).text(f"<{spelling(value)}>")

    assert "[redacted:MY_SECRET]" in redacted
    assert not set(re.findall(r"\w{2,}", redacted)) & set(re.findall(r"\w{2,}", value))


@pytest.mark.parametrize(
    "value", [QUOTED, "don't tell", 'it\'s one\n"line" and two', "a\ttab and 'more'"]
)
@pytest.mark.parametrize("script", ['set -x; : "$X"', 'printf %q "$X"', "declare -p X"])
def test_what_bash_prints_is_redacted(value: str, script: str) -> None:
    environ = {"X": value, "LC_ALL": "C.UTF-8"}
    ran = subprocess.run(
        ["bash", "-c", script], env=environ, capture_output=True, text=True, check=True
    )
    printed = ran.stdout + ran.stderr

    redacted = Redactor({"MY_SECRET": value}).text(printed)

    assert "[redacted:MY_SECRET]" in redacted
    assert not re.findall(r"don|tell|zür|line|two|more", redacted)


CREDENTIAL = {
    "type": "service_account",
    "project_id": "my-shop-production-europe",
    "private_key_id": "3f2a9c0d1e5b7a6f8c9d0e1f2a3b4c5d6e7f8091",
    "private_key": "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ/FAASCBKcwggSj\nMzEfYyjiWA4R4/M2bS1GB4==\n-----END KEY-----\n",
    "client_email": "ci-deploy-robot@my-shop-production-europe.iam.gserviceaccount.com",
    "token_uri": "https://oauth2.googleapis.com/token",
    "auth_provider_x509_cert_url": "https://www.googleapis.com/oauth2/v1/certs",
    "refresh_token": "1//0gAbCdEfGhIjKl.mnop",
    "password": "correct horse battery",
}
_HIDDEN = (
    "3f2a9c0d1e5b7a6f8c9d0e1f2a3b4c5d6e7f8091",
    "MIIEvQIBADANBgkqhkiG9w0BAQ/FAASCBKcwggSj",
    "MzEfYyjiWA4R4/M2bS1GB4==",
    "1//0gAbCdEfGhIjKl.mnop",
    "correct horse battery",
)


@pytest.mark.parametrize("indent", [2, None])
def test_parts_of_a_credential_are_found_alone(indent: int | None) -> None:
    redactor = Redactor({"GOOGLE_CREDENTIALS": json.dumps(CREDENTIAL, indent=indent)})
    printed = json.dumps(CREDENTIAL, indent=4)
    numbered = "".join(
        f"{number:6}\t{line}\n" for number, line in enumerate(printed.splitlines(), 1)
    )
    key = f"{CREDENTIAL['private_key']}"

    for text in (numbered, numbered.splitlines()[8], key, *_HIDDEN):
        redacted = redactor.text(f"> {text}")
        assert not [part for part in _HIDDEN if part in redacted]
    for kept in (
        "my-shop-production-europe",
        "client_email",
        "auth_provider_x509_cert_url",
        "/oauth2/v1/certs",
    ):
        assert kept in redactor.text(numbered)
    assert redactor.text(CREDENTIAL["token_uri"]) == CREDENTIAL["token_uri"]


def test_parts_of_a_credential_of_lines_are_found_alone() -> None:
    value = "[default]\naws_access_key_id = ABCDEFGHIJKLMNOPQRST\naws_secret_access_key=wJalrXUtnF/K7MDENG/bPxRfiCYzz\n"
    redactor = Redactor({"AWS_CREDENTIALS": value}, allow=["ABCDEFGHIJKLMNOPQRST"])

    assert (
        redactor.text("key wJalrXUtnF/K7MDENG/bPxRfiCYzz")
        == "key [redacted:AWS_CREDENTIALS]"
    )
    assert redactor.text("ABCDEFGHIJKLMNOPQRST") == "ABCDEFGHIJKLMNOPQRST"
    assert redactor.text("aws_secret_access_key aws_access_key_id [default]") == (
        "aws_secret_access_key aws_access_key_id [default]"
    )


def test_ordinary_text_stays_beside_a_credential_of_several_lines() -> None:
    """The sources of this package are redacted as they are: no word of them is taken for a part of a secret."""
    redactor = Redactor(
        {"GOOGLE_CREDENTIALS": json.dumps(CREDENTIAL, indent=2), "QUOTED_TOKEN": QUOTED}
    )
    folder = Path(redaction.__file__).parent
    sources = [path.read_text() for path in sorted(folder.glob("*.py"))]

    assert sources
    assert [redactor.text(text) for text in sources] == sources


@pytest.mark.parametrize("before", ["", "a", "me", "you", "user:"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_secret_inside_longer_base64_is_found(
    before: str, encode: Callable[[bytes], bytes]
) -> None:
    written = encode(f"{before}{SECRET}:and more".encode()).decode()

    redacted = REDACTOR.text(written)

    assert "[redacted:MY_API_KEY]" in redacted
    readable = redacted.replace("[redacted:MY_API_KEY]", "").encode()
    assert len(readable) < len(written) - len(SECRET)


def test_the_longer_secret_wins() -> None:
    redactor = Redactor(
        {"A_KEY": "12345678", "B_KEY": "12345678-more", "C_KEY": "x12345678y"}
    )

    assert redactor.names == ("B_KEY", "C_KEY")
    assert (
        redactor.text("12345678-more x12345678y") == "[redacted:B_KEY] [redacted:C_KEY]"
    )


def test_a_secret_of_several_lines_is_found_as_it_is_and_as_json() -> None:
    key = "-----BEGIN KEY-----\nMIIabcdef\n-----END KEY-----\n"
    redactor = Redactor({"DEPLOY_KEY": key})

    assert redactor.text(f"a\n{key}b") == "a\n[redacted:DEPLOY_KEY]\nb"
    assert redactor.text(json.dumps(key)) == '"[redacted:DEPLOY_KEY]\\n"'


def test_json_values_are_redacted_in_depth() -> None:
    value = {TOKEN: [TOKEN, 1, None, True, 1.5, {"a": f"x{TOKEN}"}]}

    assert REDACTOR.json(value) == {
        "[redacted:GITHUB_TOKEN]": [
            "[redacted:GITHUB_TOKEN]",
            1,
            None,
            True,
            1.5,
            {"a": "x[redacted:GITHUB_TOKEN]"},
        ]
    }


@pytest.mark.parametrize(
    "hashed",
    ["a47" + "0" * 37, "a47" + "0" * 61, "00000000-0047-4000-8000-000000000047"],
)
def test_a_hash_in_json_stays_if_a_short_secret_occurs_in_it(hashed: str) -> None:
    redactor = Redactor({"PIN": "47"}, extra=["$PIN"])
    assert redactor.json([hashed, hashed + "!"]) == [
        hashed,
        redactor.text(hashed) + "!",
    ]
    assert "47" not in redactor.text(hashed)
    assert Redactor({"KEY": hashed}, names=["KEY"]).json([hashed]) == ["[redacted:KEY]"]
    assert Redactor({"KEY": hashed[:20]}, names=["KEY"]).json([hashed]) == [
        f"[redacted:KEY]{hashed[20:]}"
    ]
    assert Redactor({}, extra=["/^[0-9a-f-]+$/"]).json([hashed]) == ["[redacted:extra]"]


def test_bytes_that_are_no_text_are_redacted_too() -> None:
    assert (
        REDACTOR.data(b"\xff\xfe" + TOKEN.encode() + b"\x80")
        == b"\xff\xfe[redacted:GITHUB_TOKEN]\x80"
    )


def test_a_value_that_is_no_utf8_never_cuts_a_character() -> None:
    redactor = Redactor({"A_KEY": "\udca4bcdefgh", "B_KEY": "p\udce4ssw\udcf6rd"})

    assert redactor.data("äbcdefgh".encode()) == "äbcdefgh".encode()
    assert redactor.data(b"p\xe4ssw\xf6rd") == b"[redacted:B_KEY]"


def test_a_forged_replacement_hides_nothing() -> None:
    assert REDACTOR.text(f"[redacted:{TOKEN}]") == "[redacted:[redacted:GITHUB_TOKEN]]"


def test_lone_surrogates_survive() -> None:
    assert (
        REDACTOR.text(f"\ud800{TOKEN}\udfff") == "\ud800[redacted:GITHUB_TOKEN]\udfff"
    )


awkward = st.text(alphabet="ab[]:redact_KY ä", min_size=8, max_size=16)


@given(
    values=st.lists(awkward, min_size=1, max_size=4),
    parts=st.lists(st.text("ab[]:redact_KY ä", max_size=6)),
)
@example(values=["aaaaaaaa[", "bbbbbbbb"], parts=[])
@example(values=["[redacted:K0_KEY]", "K0_KEY]aa"], parts=["aa"])
def test_redacting_twice_changes_nothing_and_leaves_valid_text(
    values: list[str], parts: list[str]
) -> None:
    redactor = Redactor({f"K{place}_KEY": value for place, value in enumerate(values)})
    text = "".join(
        part + value
        for part, value in zip(parts + [""] * len(values), values * 2, strict=False)
    )

    once = redactor.data(text.encode())

    assert redactor.data(once) == once
    assert redactor.text(text) == once.decode()


@given(
    text=st.lists(
        st.sampled_from(
            [SECRET, TOKEN, TOKEN[:7], TOKEN[7:], "x", "ä", "[redacted:", "\n"]
        )
    ).map("".join),
    size=st.integers(min_value=1, max_value=60),
)
def test_a_stream_is_redacted_as_the_whole_is(text: str, size: int) -> None:
    data = text.encode()
    chunks = [data[place : place + size] for place in range(0, len(data), size)]

    assert b"".join(REDACTOR.chunks(chunks)) == REDACTOR.data(data)


@pytest.mark.parametrize("filler", [b".", b"a line of output\n"])
def test_a_secret_is_found_wherever_a_long_stream_is_cut(filler: bytes) -> None:
    secrets = [SECRET.encode(), TOKEN.encode()]
    data = b"".join(
        filler * (9_000 // len(filler) + number) + secrets[number % 2]
        for number in range(350)
    )
    assert len(data) > 3_000_000

    redacted = b"".join(
        REDACTOR.chunks(
            data[place : place + 70_001] for place in range(0, len(data), 70_001)
        )
    )

    expected = data.replace(secrets[0], b"[redacted:MY_API_KEY]").replace(
        secrets[1], b"[redacted:GITHUB_TOKEN]"
    )
    assert redacted == expected


def test_a_stream_gives_away_what_is_settled() -> None:
    stream = REDACTOR.chunks(b"x" * 100_000 for _ in range(1000))

    assert sum(len(next(stream)) for _ in range(3)) > 100_000


@pytest.mark.bench
def test_fifty_megabytes_take_no_time() -> None:
    redactor = Redactor(
        {f"KEY_{number}": f"secret-{number}-{'x' * number}" for number in range(20)}
    )
    data = b"the quick brown fox asks for the secret of the lazy dog\n" * 900_000
    began = time.thread_time()

    assert redactor.data(data) == data

    assert time.thread_time() - began < 10
