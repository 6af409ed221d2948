"""Keys and values are found where they stand."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from goalrunner.goalfile.toml_text import NOWHERE, Key, locate

DOCUMENT = """\
# "not.a.key" = [1]
objective = "say [hi] # = {no} \\" x"  # = here
'quoted key' = 1
"esc\\u0061ped" . b = { c = 1979-05-27 07:32:00, d . e = [ 1, { f = 'g,}' } ] }
long = \"\"\"
[table]
a = "b"\"\"\"\"
raw = '''
[x] = ' '''
list = [
  "a", # ]
  [ 2 ],
]
[judge]
  model\t=\t"m"
[ a . "b.c" ]
[[validators]]
run = "one"
[[validators]]
run = "two"
[validators.expect]
exit_code = 1
[[validators.deep]]
x = 1
[[validators.deep]]
"""


def test_every_kind_of_key_is_found_at_its_line_and_column() -> None:
    found = locate(DOCUMENT)
    lines = DOCUMENT.split("\n")
    places = {
        ".".join(map(str, path)): (found.key(path), found.value(path))
        for path in found.offsets
    }
    assert places == {
        "objective": ((2, 1), (2, 13)),
        "quoted key": ((3, 1), (3, 16)),
        "escaped": ((4, 1), (4, 22)),
        "escaped.b": ((4, 18), (4, 22)),
        "long": ((5, 1), (5, 8)),
        "raw": ((8, 1), (8, 7)),
        "list": ((10, 1), (10, 8)),
        "list.0": ((11, 3), (11, 3)),
        "list.1": ((12, 3), (12, 3)),
        "judge": ((14, 2), (14, 2)),
        "judge.model": ((15, 3), (15, 11)),
        "a": ((16, 3), (16, 3)),
        "a.b.c": ((16, 7), (16, 7)),
        "validators": ((17, 3), (17, 3)),
        "validators.0": ((17, 3), (17, 3)),
        "validators.0.run": ((18, 1), (18, 7)),
        "validators.1": ((19, 3), (19, 3)),
        "validators.1.run": ((20, 1), (20, 7)),
        "validators.1.expect": ((21, 13), (21, 13)),
        "validators.1.expect.exit_code": ((22, 1), (22, 13)),
        "validators.1.deep": ((23, 14), (23, 14)),
        "validators.1.deep.0": ((23, 14), (23, 14)),
        "validators.1.deep.0.x": ((24, 1), (24, 5)),
        "validators.1.deep.1": ((25, 14), (25, 14)),
    }
    assert lines[13] == "[judge]"
    assert set(found.offsets) < paths_of(tomllib.loads(DOCUMENT))


def test_what_is_not_there_is_found_at_the_table_around_it() -> None:
    found = locate("[judge]\nmodel = 1\n")
    assert found.key(("judge", "require")) == (1, 2)
    assert found.value(("judge", "model", 3, "x")) == (2, 9)
    assert found.key(("other",)) == NOWHERE
    assert found.value(()) == NOWHERE


@given(st.text(alphabet="ab.[]{}\"'=,#\\\n 1", max_size=40))
def test_any_text_at_all_is_walked_without_error_and_the_keys_of_a_valid_one_are_found(
    text: str,
) -> None:
    found = locate(text)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assert all(
            offset <= len(text) for pair in found.offsets.values() for offset in pair
        )
    else:
        assert {(key,) for key in table} <= set(found.offsets) <= paths_of(table)


def paths_of(value: object, path: Key = ()) -> set[Key]:
    """Every path of a parsed document."""
    match value:
        case dict():
            steps: list[tuple[str | int, object]] = list(value.items())
        case list():
            steps = list(enumerate(value))
        case _:
            return set()
    return {(*path, step) for step, _ in steps}.union(
        *(paths_of(item, (*path, step)) for step, item in steps)
    )


@dataclass
class Writer:
    """Writes a document piece by piece and notes where keys and values came to stand."""

    text: str = ""
    keys: dict[Key, int] = field(default_factory=dict)
    values: dict[Key, int] = field(default_factory=dict)

    def note(self, path: Key, key: int, value: int) -> None:
        self.keys.setdefault(path, key)
        self.values.setdefault(path, value)


SPACES = st.text(alphabet=" \t", max_size=2)
BLANKS = st.sampled_from(["", " ", "\n", " # ]}\n", "\r\n\t", '#"\n\n'])
NAMES = st.one_of(
    st.from_regex(r"[A-Za-z0-9_-]{1,4}", fullmatch=True),
    st.sampled_from(["", "a.b", "=", "#", "[x]", "é\u2028", "'", '"\\', "\t"]),
)
SCALARS = st.sampled_from(
    [
        "1", "-0.5e3", "inf", "true", "1979-05-27T07:32:00Z", "1979-05-27 07:32:00", "07:32:00", "0xF_F",
        '"a\\"]}#=,\\\\"', "'\\'", '"""a\n["b"]\\""" c"""', '"""x"""""', "'''y'''''", "'''\n[z]\n# '' '''", '""', "''", '""""""',
    ]
)  # fmt: skip


def spelled(draw: st.DrawFn, name: str) -> str:
    """A key as it may be written: bare, in plain or in double quotes."""
    ways = [
        '"'
        + "".join(f"\\u{ord(char):04x}" if char in '"\\\t' else char for char in name)
        + '"'
    ]
    if name and name.isascii() and all(char.isalnum() or char in "_-" for char in name):
        ways.append(name)
    if "'" not in name:
        ways.append(f"'{name}'")
    return draw(st.sampled_from(ways))


def write_value(
    draw: st.DrawFn, out: Writer, path: Key, depth: int, *, inner: bool = False
) -> None:
    kind = (
        draw(st.sampled_from(["scalar", "scalar", "list", "table"]))
        if depth
        else "scalar"
    )
    if kind == "scalar":
        out.text += draw(SCALARS)
    elif kind == "list":
        out.text += "["
        for index in range(draw(st.integers(0, 3))):
            out.text += ("," if index else "") + draw(BLANKS)
            if not inner:
                out.note((*path, index), len(out.text), len(out.text))
            write_value(draw, out, (*path, index), depth - 1, inner=True)
            out.text += draw(BLANKS)
        out.text += (
            draw(st.sampled_from([",", ""])) if not out.text.endswith("[") else ""
        )
        out.text += draw(BLANKS) + "]"
    else:
        out.text += "{"
        for index, name in enumerate(draw(st.lists(NAMES, unique=True, max_size=3))):
            out.text += ("," if index else "") + draw(SPACES)
            write_pair(draw, out, path, [name], depth - 1, inner=True)
            out.text += draw(SPACES)
        out.text += draw(SPACES) + "}"


def write_pair(
    draw: st.DrawFn,
    out: Writer,
    table: Key,
    names: list[str],
    depth: int,
    *,
    inner: bool = False,
) -> None:
    starts = []
    for index, name in enumerate(names):
        out.text += (draw(SPACES) + "." + draw(SPACES)) if index else ""
        starts.append(len(out.text))
        out.text += spelled(draw, name)
    out.text += draw(SPACES) + "=" + draw(SPACES)
    path = table
    for name, start in zip(names, starts, strict=True):
        path = (*path, name)
        if not inner:
            out.note(path, start, len(out.text))
    write_value(draw, out, path, depth, inner=inner)


@st.composite
def documents(draw: st.DrawFn) -> Writer:
    """A valid document of tables, arrays of tables, dotted keys and every kind of value, with its true positions."""
    out = Writer()
    table: Key = ()
    for index, name in enumerate(
        draw(st.lists(NAMES, unique=True, min_size=1, max_size=5))
    ):
        out.text += draw(BLANKS) + ("\n" if out.text else "") + draw(SPACES)
        match draw(st.sampled_from(["pair", "dotted", "table", "array"])):
            case "pair":
                write_pair(draw, out, table, [f"p{name}{index}"], 2)
            case "dotted":
                write_pair(
                    draw,
                    out,
                    table,
                    [f"p{name}{index}", *draw(st.lists(NAMES, min_size=1, max_size=2))],
                    1,
                )
            case "table":
                out.text += "[" + draw(SPACES)
                table = (f"t{name}",)
                out.note(table, len(out.text), len(out.text))
                out.text += spelled(draw, f"t{name}") + draw(SPACES) + "]"
            case _:
                out.text += "[[" + draw(SPACES)
                count = len(
                    [
                        path
                        for path in out.keys
                        if path[:1] == ("many",) and len(path) == 2
                    ]
                )
                out.note(("many",), len(out.text), len(out.text))
                table = ("many", count)
                out.note(table, len(out.text), len(out.text))
                out.text += spelled(draw, "many") + draw(SPACES) + "]]"
    return out


@given(documents())
def test_every_key_and_value_of_a_written_document_is_found_at_its_very_place(
    written: Writer,
) -> None:
    assert paths_of(tomllib.loads(written.text)) >= set(written.keys)
    found = locate(written.text)
    assert found.offsets == {
        path: (at, written.values[path]) for path, at in written.keys.items()
    }
