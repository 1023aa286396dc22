"""Reads a Lua script the way a reviewer does: its header, and what its body really uses."""

import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

HEADER_FIELDS: Final = ["Purpose", "KEYS", "ARGV", "Returns"]
NONE: Final = "(none)"


@dataclass(frozen=True)
class ScriptText:
    """One script; `header` maps each field of the header to its text, lines joined."""

    name: str
    first_line: str
    header: list[tuple[str, str]]
    body: str

    def declared(self, field: str) -> list[str]:
        """The names after KEYS: or ARGV:; a name that ends in `...` stands for one or more."""
        text = dict(self.header)[field]
        return [] if text == NONE else text.split()

    @property
    def fixed_arguments(self) -> list[str]:
        return [name for name in self.declared("ARGV") if not name.endswith("...")]

    @property
    def takes_more_arguments(self) -> bool:
        return self.declared("ARGV") != self.fixed_arguments

    def locals_of(self, source: str) -> dict[int, str]:
        """Which local is assigned SOURCE[n] (or tonumber of it), by n, from `local a, b = ...`."""
        assigned: dict[int, str] = {}
        for names, values in re.findall(r"^local ([\w, ]+) = (.+)$", self.body, re.MULTILINE):
            parts = re.split(r",\s*(?![^(]*\))", values)
            for name, value in zip(re.split(r",\s*", names), parts, strict=False):
                if found := re.fullmatch(rf"(?:tonumber\()?{source}\[(\d+)\]\)?", value.strip()):
                    assigned[int(found[1])] = name
        return assigned

    def pairs_of_argv(self) -> dict[int, str]:
        """Which hash field is written from ARGV[n], by n, from `'field', ARGV[n]`."""
        found = re.findall(r"'(\w+)', ARGV\[(\d+)\]", self.body)
        return {int(number): name for name, number in found}

    def constants(self) -> list[dict[str, int]]:
        """Every `local OK, UNKNOWN = 0, 1` of the script, in order."""
        lines = re.findall(r"^local ([A-Z_, ]+) = ([\d, ]+)$", self.body, re.MULTILINE)
        return [
            dict(zip(names.split(", "), map(int, values.split(", ")), strict=True))
            for names, values in lines
        ]


def read_script(name: str) -> ScriptText:
    text = files("lua").joinpath(f"{name}.lua").read_text(encoding="utf-8")
    first_line, *lines = text.splitlines()
    end = next(at for at, line in enumerate(lines) if not line.startswith("--"))
    header: list[tuple[str, str]] = []
    for line in lines[:end]:
        if found := re.fullmatch(r"-- (\w+): (.+)", line):
            header.append((found[1], found[2]))
        else:
            field, text_so_far = header.pop()
            header.append((field, f"{text_so_far} {line.removeprefix('--').strip()}"))
    code = [re.sub(r"(^|\s)--.*$", "", line) for line in lines[end:]]
    return ScriptText(name, first_line, header, "\n".join(code))
