"""The programs that a shell line starts, also through others."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core.shell_programs import label, programs, started_programs
from goalrunner.core.tools import WRAPPERS

THROUGH_OTHERS = (
    "case x in x) git push;; esac",
    "f() { git push; }; f",
    "! { git push; }",
    "env - git push",
    "env -i -u B A=1 git push",
    "env env env git push",
    "sudo --user bob git push",
    "sudo --user=bob git push",
    "sudo -nu bob git push",
    "sudo -ubob -- git push",
    "sudo A=1 git push",
    "flock -w 5 lock git push",
    "busybox sh -c 'git push'",
    "busybox env git push",
    "xargs git push < f",
    "xargs -n1 -I{} git push {} < f",
    "xargs -I % sh -c 'git push %'",
    "bash -euo pipefail -c 'git push'",
    "sh -c 'sh -c \"git push\"'",
    "trap 'git push' EXIT",
    "find . -maxdepth 0 -exec git push {} \\;",
    "find . -exec ls {} + -execdir git push {} +",
    "nice -n 5 git push",
    "nohup git push &",
    "stdbuf -oL git push",
    "timeout -k 5 60 git push",
    "uv run git push",
    "command git push",
    "exec git push",
    "coproc git push",
    "time git push",
    "if a; then git push; fi",
    "while a; do git push; done",
    "(git push)",
    "! git push",
    "> log git push",
    "git > log push",
    "git 2>&1 push < in origin",
    "cat <<A; ls # <<E\nx\nA\ngit push\nE",
    "2>&1 <<'W' git push\nW\nls",
    ">x <<'W' git push\nW\ntrue",
    "! a # note\ngit push",
    "a &&\n\\git push",
    "true\n\\git push",
    "true\n\\\ngit push",
    "a >x\n\\git push",
    "a # note\n\\git push",
    "git rebase -i --exec 'git push' main",
    "git rebase --exec='make && git push' main",
    "git -C sub rebase -x 'git push' main",
    "git rebase -ix 'git push' main",
    "git bisect run git push",
    "git bisect run sh -c 'git push'",
    "git submodule foreach --recursive git push",
    "git submodule --quiet foreach 'git push || true'",
)

NOT_UNDERSTOOD = (
    "env -S 'git push'",
    "env -S'git push'",
    "env -vS 'git push'",
    "env --split-string='A=1 git push'",
    "flock -c 'git push' lock",
    "flock lock -c 'git push'",
    "cat <<E\n$(git push)\nE",
    "cat <<E\n`git push`\nE",
    "eval 'git push'",
    "eval git push",
    "npx -c 'git push'",
    "A=$(git push)",
    "[ $(git push) ]",
    'echo "${X:-$(git push)}"',
    "diff <(git push) x",
    "cat <<E\n\\$x $(git push)\nE",
    'bash -c "git push $X"',
    "bash <<E\ngit push\nE",
    "bash -s x <<'E'\ngit push\nE",
    "sudo bash <<E\ngit push\nE",
    "bash <<E 2>&1 | tail\ngit push\nE",
    "bash <<< 'git push'",
    "sh /dev/stdin <<E\ngit push\nE",
    ". /dev/stdin <<'E'\ngit push\nE",
    "source /dev/stdin <<< 'git push'",
    "bash /dev/fd/0 <<E\ngit push\nE",
    "$X push",
    '"$(which git)" push',
    "sudo $X",
    "timeout 5 $X",
    "./gi[t] push",
    'sh -c "$X"',
    'eval "$X"',
    "echo 'git push' | sh",
    "cat x | sudo bash",
    "bash <(curl x)",
    "curl 'unclosed",
    "sh -c 'curl \"'",
    "nohup " * 20 + "x",
    ". <(echo git push)",
    "echo git push | . /dev/stdin",
    "cat f | sh >here_document_0",
    "cat f | sh >here_docu''ment_0",
    "alias g='git push'\ng",
    "git -c alias.p=push p",
    "doas git push",
    "su bob -c 'git push'",
    "su - bob -c 'git push'",
    "runuser -u bob git push",
    "parallel git push ::: a b",
    "ionice -c 3 setsid -w git push",
    "strace -f -o x git push",
    "chroot / git push",
    "script -qc 'git push' /dev/null",
    "watch -n 5 'git push'",
    "echo 'git push' | parallel",
)


def starts_git_push(line: str) -> bool:
    return any(
        (one.name, *one.words[1:2]) == ("git", "push")
        for one in started_programs(line)[0]
    )


@pytest.mark.parametrize("line", THROUGH_OTHERS)
def test_a_program_is_found_behind_others(line: str) -> None:
    assert starts_git_push(line)
    assert started_programs(line)[1] == ""


@pytest.mark.parametrize("line", NOT_UNDERSTOOD)
def test_a_line_whose_programs_are_not_known_says_why(line: str) -> None:
    assert started_programs(line)[1]


@pytest.mark.parametrize(
    "line",
    [
        'echo "git push"',
        "grep -r 'git push' .",
        "cat > f <<'E'\ngit push\nE",
        "cat > f <<E\ngit push $HOME\nE",
        "python - <<'E'\ngit push\nE",
        "python - <<'E' 2>&1 | tail -5\nprint(1)\nE",
        "bash script.sh <<E\ngit push\nE",
        "cat <<E | python3 -\nx = 'git push'\nE",
        "command -v git push",
        "# git push\nls",
        "docker run img git push",
        "git commit -m 'x; git push'",
        "awk '{print $1}' f | sed 's/git push//'",
        '"$VENV/bin/python" -m pytest',
        'for f in *.py; do python -m py_compile "$f"; done',
        "[ -d .git ] && git diff || true",
        'mkdir -p a/{b,c}; arr=(a b); echo "${arr[@]}"',
        "bash -c 'cd $DIR && make'",
        "ls | xargs -r wc -l",
        "sudo -l; exec 2>&1",
        "true\ntouch x\n\nls",
        "printf 'a\nb' \"c\n\\d\"",
        "a \\\n  b \\\n  --c\nd",
        "x=(a\n b)\na |\n b &&\n c",
        "cat <<'E'\n\\begin\n\\end\nE\nls",
        ">x <<'E'\ngit push\nE\nls",
        "a >x # note\nb",
        "! a # note\nb",
        "source venv/bin/activate && a",
        "git -c user.name=x commit",
        "git add alias.py",
        "git rebase main --onto x",
        "git bisect start x y",
        "git submodule update --init",
        "git commit -m 'rebase --exec git push'",
        'git commit -m "$(cat <<\'EOF\'\nit\'s `x`, and git push\n\nA "b"\nEOF\n)" && git log',
        "python3 - 2>&1 <<'E' | tail -5\nprint(1)\nE",
        "grep -n '<<EOF' f\nls",
    ],
)
def test_an_honest_line_is_understood_and_starts_nothing_else(line: str) -> None:
    assert not starts_git_push(line)
    assert started_programs(line)[1] == ""


def test_validators_see_the_innermost_programs_alone() -> None:
    def names(line: str) -> list[tuple[str, tuple[str, ...]]]:
        return [(one.name, one.through) for one in programs(line)]

    assert names("cd x && uv run coverage run -m pytest -q") == [
        ("cd", ()),
        ("pytest", ("uv", "coverage")),
    ]
    assert names("sh -c 'a; b' | c") == [("a", ("sh",)), ("b", ("sh",)), ("c", ())]
    assert names("find . -name x | xargs pytest") == [
        ("find", ()),
        ("pytest", ("xargs",)),
    ]
    assert names("echo $(pytest)") == [("echo", ())]
    assert names("f() { pytest; }; f") == [("pytest", ()), ("f", ())]
    assert names("sudo") == [("sudo", ())]
    assert names("pytest 'unclosed") == []


def test_a_program_that_runs_once_for_each_input_may_not_run() -> None:
    for line in ("ls | xargs pytest", "find . -exec pytest {} +"):
        assert programs(line)[-1].optional
    assert not programs("flock lock pytest")[-1].optional


def test_environments_are_known() -> None:
    (program,) = programs("A=1 env -u B C=2 - pytest")
    assert program.assignments == ("A=1", "C=2")
    assert program.clean
    assert programs("sudo -u bob pytest")[0].clean
    assert programs("python -I -m pytest")[0].clean


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("pytest -q", "pytest"),
        ("cd sub && make check", "make"),
        ("env A=b npm test", "npm"),
        ("uv run python -m pytest", "pytest"),
        ("! grep -r TODO src", "grep"),
        ("echo 'unclosed", "echo"),
        ("A=b", ""),
        ("", ""),
    ],
)
def test_a_line_is_named_after_its_check(line: str, name: str) -> None:
    assert label(line) == name


@given(
    st.lists(
        st.sampled_from(
            [
                *WRAPPERS,
                "sh",
                "-c",
                "-u",
                "--",
                "find",
                "-exec",
                "$X",
                "A=1",
                "eval",
                "x",
                ";",
                "|",
                "'",
            ]
        )
    )
)
def test_any_wrappers_are_read(words: list[str]) -> None:
    line = " ".join(words)
    programs(line)
    started_programs(line)
    label(line)


@given(
    st.lists(
        st.text(
            alphabet=st.characters(min_codepoint=32, max_codepoint=0x2FFF), min_size=1
        ),
        max_size=4,
    )
)
def test_quoted_words_reach_the_inner_command(words: list[str]) -> None:
    inner = shlex.join(["run", *words])
    for line in (
        f"timeout 5 {inner}",
        shlex.join(["sh", "-c", inner]),
        shlex.join(["sudo", "sh", "-c", inner]),
    ):
        assert started_programs(line)[0][-1].words == ("run", *words)


@pytest.mark.parametrize(
    "part",
    [
        "find . -exec ",
        "xargs ",
        "eval ",
        "sudo env ",
        "a && ",
        "a | ",
        "sh -c '",
        "$(a ",
    ],
)
def test_a_line_of_many_commands_takes_no_exponential_time(part: str) -> None:
    started_programs(part * 1_000)
