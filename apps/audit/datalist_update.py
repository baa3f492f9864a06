"""A new datalist of a site in force in one step: until its ``data.yaml`` names it the old one counts, and again later.

Given annotations and earlier datalists are never changed. So the way back is to name the earlier datalist again.
"""

import json
import re
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from ...custom.data.datalist import read_datalist
from ...custom.data.description import DESCRIPTION_FILE, read_site_description
from ...custom.data.whole_files import new_private_file, replaced, write_text
from ...transforms.errors import DataError, shown
from ...transforms.strict_files import JsonObject, parse_yaml, read_json

# The key of a datalist that names the one before it, a file next to it.
UPDATED_FROM = "updated_from"
REVIEWED, SHIFTED = "reviewed", "shifted"

# What an update puts before the suffix of a datalist's name.
_OF_UPDATE = re.compile(rf"\.({REVIEWED}|{SHIFTED})(-\d+)?$")
_LINE = re.compile(r"^datalist[ \t]*:[^\r\n#]*?(?P<comment>[ \t]+#[^\r\n]*)?(?=[\r\n]|\Z)", re.MULTILINE)


@dataclass(frozen=True)
class DatalistUpdate:
    """A new datalist that is ready to be put in force.

    Attributes:
        before: the datalist that counts now.
        file: where the new one will lie, next to it.
        description: the site's ``data.yaml``.
        text: its content now.
        new_text: the same with the new datalist, all else as it is.
    """

    before: Path
    file: Path
    description: Path
    text: str
    new_text: str

    def put_in_force(self, content: JsonObject, out: Path) -> Path:
        """Write the new datalist, then ``data.yaml``, whose replacement is the one step that counts.

        Where anything fails the new files are removed again, and the old datalist counts. A process that is killed
        leaves new files that nothing names.

        Args:
            content: of the new datalist.
            out: folder of the new annotations that it names; removed where something fails.

        Returns:
            The new datalist.

        Raises:
            DataError: if somebody has changed ``data.yaml`` or updated the datalist meanwhile.
            OSError: if a file cannot be written.
        """
        is_own = False
        try:
            # Another process may have found the same name free.
            with new_private_file(self.file):
                is_own = True
            write_text(self.file, json.dumps(content | {UPDATED_FROM: self.before.name}, indent=1) + "\n")
            _replace_text(self.description, self.text, self.new_text)
        except BaseException as error:
            # A file of this name that is in force may be another process's, which names another folder.
            if not (is_own and self._is_in_force()):
                shutil.rmtree(out, ignore_errors=True)
                if is_own:
                    self.file.unlink(missing_ok=True)
            if isinstance(error, FileExistsError):
                raise DataError(f"{self.file}: was written meanwhile; expected no such file. Try again.") from error
            raise
        return self.file

    def _is_in_force(self) -> bool:
        return _text_of(self.description) == self.new_text


@dataclass(frozen=True)
class Reverted:
    """The datalist that counted, and the earlier one that counts again."""

    before: Path
    file: Path


def prepare_update(data: Path, out: Path, name: str) -> DatalistUpdate:
    """Check that a datalist can be put in force that names files of a folder; nothing is written.

    Args:
        data: the site's data.
        out: the folder of the new files.
        name: what the new datalist is for, a part of its name.

    Raises:
        DataError: if the folder lies outside that of the datalist, or ``data.yaml`` cannot name another one.
    """
    datalist = data / read_site_description(data).datalist
    if not out.resolve().is_relative_to(datalist.parent.resolve()):
        raise DataError(
            f"{out}: a datalist may not lead out of its folder; expected with --update-datalist a folder in "
            f"{datalist.parent}."
        )
    return _naming(data, datalist, _free_name(datalist, name))


def revert_update(data: Path) -> Reverted:
    """Let the datalist count again that the present one was made from; no file is removed.

    Raises:
        DataError: if no update made the present datalist, the earlier one cannot be read, or ``data.yaml`` cannot name
            it.
    """
    datalist = data / read_site_description(data).datalist
    content = read_json(datalist, "a datalist", any_number=True)
    earlier = content.get(UPDATED_FROM) if isinstance(content, dict) else None
    if earlier is None:
        raise DataError(f"{datalist}: no update of annotations has made it; there is nothing to revert.")
    # A name alone: a datalist may come from elsewhere.
    if not isinstance(earlier, str) or earlier in ("", ".", "..") or "\0" in earlier or Path(earlier).name != earlier:
        raise DataError(f"{datalist}: key {UPDATED_FROM!r} is {shown(earlier)}; expected the name of a file beside it.")
    file = datalist.with_name(earlier)
    read_datalist(file)
    update = _naming(data, datalist, file)
    _replace_text(update.description, update.text, update.new_text)
    return Reverted(datalist, file)


def _free_name(datalist: Path, name: str) -> Path:
    """Where the next datalist is written: next to the present one, under a name that no file has."""
    stem, number = _OF_UPDATE.sub("", datalist.stem), 1
    while True:
        file = datalist.with_name(f"{stem}.{name}{'' if number == 1 else f'-{number}'}{datalist.suffix}")
        if not (file.exists() or file.is_symlink()):
            return file
        number += 1


def _naming(data: Path, datalist: Path, file: Path) -> DatalistUpdate:
    """An update to another datalist next to the present one."""
    # Of a link the file that it leads to is replaced.
    description = (data / DESCRIPTION_FILE).resolve()
    text = _text_of(description)
    values = parse_yaml(text, str(description))
    before = values.get("datalist", datalist.name)
    value = str(Path(before).with_name(file.name))
    written = json.dumps(value, ensure_ascii=False)
    if _LINE.search(text):
        new_text = _LINE.sub(lambda line: f"datalist: {written}{line['comment'] or ''}", text, count=1)
    else:
        new_text = f"{text}{'' if text.endswith(chr(10)) else chr(10)}datalist: {written}\n"
    try:
        is_right = parse_yaml(new_text, str(description)) == values | {"datalist": value}
    except DataError:
        is_right = False
    if not is_right:
        raise DataError(
            f"{description}: found no line that the key 'datalist' can be changed in; expected keys in lines of their "
            "own, such as 'datalist: datalist.json'."
        )
    return DatalistUpdate(datalist, file, description, text, new_text)


def _replace_text(file: Path, before: str, after: str) -> None:
    """Replace a file in one step, which keeps its mode: a site's other accounts may have to read it."""
    mode = stat.S_IMODE(file.stat().st_mode)
    with replaced(file) as temporary:
        with temporary.open("w", encoding="utf-8", newline="") as stream:
            stream.write(after)
        temporary.chmod(mode)
        if _text_of(file) != before:
            raise DataError(f"{file}: was changed meanwhile; expected nobody to write it. Try again.")


def _text_of(file: Path) -> str:
    """The content of a file with its line ends as they are."""
    with file.open(encoding="utf-8", newline="") as stream:
        return stream.read()
