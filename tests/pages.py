"""What README and docs are made of: prose, table cells, links and commands of a Markdown page."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^ {0,3}```")
LINK = re.compile(r"!?\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\)")
# What ends a sentence, with what may close it, before a space; none in the middle of a number or a file's name.
SENTENCE_END = re.compile(r"(?<=[.!?])[\"”)*_]*\s+")
SHORT_FORMS = ("e.g.", "i.e.", "et al.", "vs.", "Eq.", "Fig.", "no.", "Dr.")
# What a command line that cannot be parsed raises, whichever click typer brings.
UsageError = typer.BadParameter.__bases__[0]


@dataclass(frozen=True)
class Page:
    """A page apart: fenced blocks by their language, paragraphs, cells of tables, headings."""

    path: Path
    blocks: tuple[tuple[str, str], ...]
    paragraphs: tuple[tuple[str, ...], ...]
    cells: tuple[str, ...]
    headings: tuple[str, ...]
    num_lines: int

    @property
    def name(self) -> str:
        """The path below the repository's root."""
        return str(self.path.relative_to(ROOT))


def read_page(path: Path) -> Page:
    """Take a page apart."""
    lines = path.read_text(encoding="utf-8").splitlines()
    blocks: list[tuple[str, str]] = []
    paragraphs: list[tuple[str, ...]] = []
    cells: list[str] = []
    headings: list[str] = []
    paragraph: list[str] = []
    fenced: list[str] | None = None
    for line in [*lines, ""]:
        if fenced is not None:
            if FENCE.match(line):
                blocks.append((fenced[0], "\n".join(fenced[1:])))
                fenced = None
            else:
                fenced.append(line)
            continue
        starts = FENCE.match(line) or line.startswith(("#", "|", "    ", "<")) or not line.strip()
        if paragraph and (starts or re.match(r"\s*(?:[-*]|\d+\.) ", line)):
            paragraphs.append(tuple(paragraph))
            paragraph = []
        if FENCE.match(line):
            fenced = [line.strip().removeprefix("```").strip()]
        elif line.startswith("    ") and not paragraph and "fedannot " in line:
            blocks.append(("sh", line.strip()))
        elif line.startswith("#"):
            headings.append(line.lstrip("#").strip())
        elif line.startswith("|"):
            cells += [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        elif line.strip() and not line.startswith("<"):
            paragraph.append(line.rstrip())
    return Page(path, tuple(blocks), tuple(paragraphs), tuple(cells), tuple(headings), len(lines))


def shown(text: str) -> str:
    """What a reader sees of a line: links by their words, no marks of emphasis or code."""
    text = LINK.sub(lambda found: found["text"], text)
    return re.sub(r"[*`]|^\s*(?:[-*]|\d+\.) ", "", text).replace("\\|", "|").strip()


def sentences(paragraph: tuple[str, ...]) -> list[str]:
    """The sentences of a paragraph."""
    text = shown(" ".join(line.strip() for line in paragraph))
    for short in SHORT_FORMS:
        text = text.replace(f"{short} ", f"{short[:-1]}\N{NO-BREAK SPACE}")
    return [item for item in SENTENCE_END.split(text) if item.strip()]


def num_words(text: str) -> int:
    """The words of a text: what has a letter; figures and signs are read at a glance."""
    return sum(any(letter.isalpha() for letter in word) for word in text.replace("\N{NO-BREAK SPACE}", " ").split())


def links(page: Page) -> list[str]:
    """The targets of a page's links, those to other sites too."""
    text = re.sub(r"^```.*?^```", "", page.path.read_text(encoding="utf-8"), flags=re.M | re.S)
    text = re.sub(r"`[^`\n]*`(?!\])", "", text)
    return [found["target"] for found in LINK.finditer(text)]


def anchor(heading: str) -> str:
    """The name under which a heading is reached."""
    kept = re.sub(r"[^\w\- ]", "", shown(heading).lower())
    return kept.replace(" ", "-")


def shell_words(script: str) -> Iterator[list[str]]:
    """The simple commands of a script, each as its words, without variables set before it."""
    joined = script.replace("\\\n", " ")
    inner = re.compile(r"\$\(([^()]*)\)")
    for line in [*inner.sub("X", joined).splitlines(), *inner.findall(joined)]:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set("();<>|&") and word:
                if words:
                    yield words
                words = []
            elif words or not (re.match(r"\w+=", word) or word in {"do", "nice", "sudo", "$", "then", "export"}):
                words.append(word)


def commands_of(page: Page) -> Iterator[list[str]]:
    """The commands of a page that are this project's: in fenced blocks, and where text names one with an option."""
    inline = re.findall(r"`((?:fedannot|make) [^`\n]+)`", page.path.read_text(encoding="utf-8"))
    scripts = [text for language, text in page.blocks if language in {"sh", "bash", "console"}]
    # What is left out of a command in a text may be anything.
    scripts += [text for text in inline if "…" not in text]
    for script in scripts:
        for words in shell_words(script):
            program = words[0].rpartition("/")[2]
            if program in {"fedannot", "make"} and len(words) > 1:
                yield [program, *words[1:]]


@cache
def _click_command(app: typer.Typer) -> Any:
    return typer.main.get_command(app)


def fault_of_command(words: list[str], app: typer.Typer, targets: set[str]) -> str | None:
    """What is wrong with one of this project's commands, or None; nothing is run."""
    if words[0] == "make":
        named = [word for word in words[1:] if "=" not in word]
        return None if set(named) <= targets else f"no such target of make: {named}"
    command = _click_command(app)
    context = typer.Context(command, info_name="fedannot")
    rest = words[1:]
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        if rest[0] not in command.commands:
            return f"{' '.join(words)}: no command {rest[0]}"
        command, rest = command.commands[rest[0]], rest[1:]
        context = typer.Context(command, parent=context, info_name=command.name)
    try:
        left = command.make_parser(context).parse_args(list(rest))[1]
    except UsageError as error:
        return f"{' '.join(words)}: {error.format_message()}"
    return f"{' '.join(words)}: {left} is no argument" if left else None
