"""The simple commands of a shell line: words, positions, and what takes an exit code's place."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from goalrunner.core.shell_syntax import Command, Lost, UnreadableError, parse


def read(line: str) -> tuple[Command, ...]:
    return parse(line).commands


def words(line: str) -> list[tuple[str, ...]]:
    return [command.words for command in read(line)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pytest -q", [("pytest", "-q")]),
        ("A=1 B='x y' pytest", [("pytest",)]),
        ("cd sub && pytest -k 'a or b'  # quick", [("cd", "sub"), ("pytest", "-k", "a or b")]),
        ("pytest > log 2>&1 < /dev/null | tee -a log", [("pytest",), ("tee", "-a", "log")]),
        ("pytest &> log; echo $?", [("pytest",), ("echo", "$?")]),
        (
            "echo \"a;b\" 'c&&d' e\\;f \"$(date; echo ')')\" `ls; pwd`",
            [("echo", "a;b", "c&&d", "e;f", "$(date; echo ')')", "`ls; pwd`")],
        ),
        ("(cd x; { a && b; }) || c", [("cd", "x"), ("a",), ("b",), ("c",)]),
        ("a \\\n  b\nc", [("a", "b"), ("c",)]),
        ("if test -f x; then pytest; else true; fi", [("test", "-f", "x"), ("pytest",), ("true",)]),
        ("for f in a b; do pytest $f; done", [("pytest", "$f")]),
        ("! grep -q x file", [("grep", "-q", "x", "file")]),
        ("echo a#b {}", [("echo", "a#b", "{}")]),
        ("[ -f x ] && [[ -d y ]]", [("[", "-f x"), ("[[", "-d y")]),
        ("export A=1 B; unset C", [("export", "A=1", "B"), ("unset", "C")]),
        ("case x in x) a;; *) b; c;; esac", [("a",), ("b",), ("c",)]),
        ("f() { a; }; f", [("a",), ("f",)]),
        ("while read x; do a; done < f", [("read", "x"), ("a",)]),
        ("> log curl x 2>&1", [("curl", "x")]),
        ("curl > log x", [("curl", "x")]),
        ("make 2>&1 test -k | tee log", [("make", "test", "-k"), ("tee", "log")]),
        ("gi\\\nt pu\\\nsh", [("git", "push")]),
        ("cat <<E | b && c\nx\nE\nd", [("cat",), ("b",), ("c",), ("d",)]),
        ("cat <<'E' 2>&1 | tail; ls\nx $(y)\nE", [("cat",), ("tail",), ("ls",)]),
        ("a; cat <<E; b\nit's\nE\nc", [("a",), ("cat",), ("b",), ("c",)]),
        ("A=1", [()]),
        ("", []),
    ],
)
def test_a_line_is_read_into_its_commands(line: str, expected: list[tuple[str, ...]]) -> None:
    assert words(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "pytest 'x",
        'echo "x',
        "(pytest",
        "pytest)",
        "a || ",
        "&& a",
        "! { a; }",
        "a\0b",
        "a | | b",
        "if a; then b; fi > log x",
    ],
)
def test_what_cannot_be_read_holds_no_commands(line: str) -> None:
    with pytest.raises(UnreadableError):
        parse(line)


@pytest.mark.parametrize(
    ("line", "nested"),
    [
        ('echo $(a) `b` "$(c $(d))" <(e) ${X:-$(f)}', ["a", "b", "c", "d", "e", "f"]),
        ("A=$(a); export B=$(b); [ $(c) ]; for i in $(d); do :; done", ["a", "b", "c", "d"]),
        ("cat <<E > $(a)\nx $(b) `c`\nE", ["a", "b", "c"]),
        ("cat <<'E'\n$(a) `b`\nE", []),
        ("cat <<E; ls\nx $(a) `b`\nE", ["a", "b"]),
        ("echo '$(a)' \\$\\(b\\)", []),
    ],
)
def test_the_commands_of_substitutions_are_found(line: str, nested: list[str]) -> None:
    found = parse(line)
    assert sorted(command.words[0] for command in found.nested) == nested


def test_what_is_known_of_a_word_with_an_expansion() -> None:
    (command,) = read("$V/bin/python a$X'b c' \"$(y)\" x{1..3} '$A'")
    assert [(word.head, word.program) for word in command.words] == [
        ("", "python"),
        ("a", ""),
        ("", ""),
        ("x", ""),
        ("$A", "$A"),
    ]
    assert [word.known for word in command.words] == [False, False, False, False, True]
    assert read("./gi[t] push")[0].words[0].program == ""


def test_what_takes_the_place_of_an_exit_code_is_known() -> None:
    def lost(line: str) -> Lost | None:
        return read(line)[0].lost

    assert lost("pytest && ruff check") is None
    assert lost("pytest -q | tee log") == Lost("|", "pytest -q | tee log", "tee log")
    assert lost("pytest || true") == Lost("||", "pytest || true", "true")
    assert lost("pytest; ruff; echo ok") == Lost(";", "pytest; echo ok", "echo ok")
    assert lost("pytest\necho ok") == Lost(";", "pytest; echo ok", "echo ok")
    assert lost("pytest & wait") == Lost("&", "pytest &")
    assert lost("(cd x && pytest) || :") == Lost("||", "(cd x && pytest) || :", ":")
    assert lost("{ pytest; } | cat") == Lost("|", "{ pytest; } | cat", "cat")
    assert lost("pytest && a || b") == Lost("||", "pytest && a || b", "b")
    assert lost("if a; then pytest; fi; echo") is None
    assert read("if a; then pytest; fi; echo")[1].lost is not None
    assert lost("pytest > log 2>&1 || true") == Lost("||", "pytest > log 2>&1 || true", "true")
    assert read("a || pytest")[1].lost is None


def test_conditions_and_negations_are_known() -> None:
    def flags(line: str, at: int = 0) -> tuple[bool, bool, bool, bool]:
        command = read(line)[at]
        return command.negated, command.fallback, command.optional, command.last

    assert flags("pytest") == (False, False, False, True)
    assert flags("! pytest") == (True, False, False, True)
    assert flags("! (a && ! pytest)", 1) == (False, False, False, True)
    assert flags("a || pytest", 1) == (False, True, False, True)
    assert flags("a || b && pytest", 2) == (False, False, False, True)
    assert flags("if a; then pytest; fi", 1) == (False, False, True, True)
    assert read("if a; then pytest; fi")[1].lost is None
    assert flags("pytest -k if && x") == (False, False, False, False)
    assert flags("pytest | tee log") == (False, False, False, True)


@given(st.text(alphabet=" \t\n\\'\"`$(){}<>|&;!#=abif", max_size=60))
def test_every_text_is_read_or_refused(line: str) -> None:
    try:
        found = read(line)
    except UnreadableError:
        return
    for command in found:
        assert isinstance(command, Command)
        assert command.words or command.assignments


@given(st.text(max_size=80))
@example("{\U00031860")
def test_no_text_raises_another_error(line: str) -> None:
    with contextlib.suppress(UnreadableError):
        parse(line)


def test_characters_beyond_ascii_are_part_of_words() -> None:
    assert words("écho 'ü $x' {\U00031860 && ö=1 > ß") == [("écho", "ü $x", "{\U00031860"), ("ö=1",)]
    assert words("E=1; a <<E\nö\nE\nü") == [(), ("a",), ("ü",)]


@given(
    st.lists(
        st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=0x2FFF), min_size=1), min_size=1, max_size=5
    )
)
def test_quoted_words_come_back_as_they_were(given_words: list[str]) -> None:
    line = shlex.join(["run", *given_words])
    assert words(line) == [("run", *given_words)]


@pytest.mark.parametrize(
    "line", ["printf '<%s>' a'b'\"c d\"\\ e", "printf '<%s>' \"x\\\"y\\\\z\\q\" 'a\\b'", "printf '<%s>' a#b # c"]
)
def test_words_are_those_of_sh(line: str) -> None:
    shown = subprocess.run(["sh", "-c", line], capture_output=True, check=True, text=True).stdout
    assert "".join(f"<{word}>" for word in words(line)[0][2:]) == shown


def test_a_very_deep_or_long_line_is_refused() -> None:
    for line in ("( " * 900 + "a" + " )" * 900, "a; " * 100_000, "$(" * 500):
        with pytest.raises(UnreadableError):
            parse(line)


@pytest.mark.bench
def test_a_line_is_read_within_milliseconds() -> None:
    line = "cd src && A=1 timeout 60 uv run pytest -q tests/test_parser.py -k 'a or b' 2>&1 | tail -20 || echo failed"
    read(line)
    times = []
    for _ in range(20):
        began = time.thread_time()
        read(line)
        times.append(time.thread_time() - began)
    assert min(times) < 0.005
