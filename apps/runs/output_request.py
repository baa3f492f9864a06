"""What an output folder was asked for, kept in it, so that no other results are mixed into those that it holds."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ...custom.data.whole_files import private_folder, write_text
from ...transforms.strict_files import read_json
from .job import JobError


def keep_request(
    out: Path,
    file_name: str,
    asked: Mapping[str, Any],
    *,
    contents: str,
    growing: Mapping[str, str] | None = None,
    free: Collection[str] = (),
) -> None:
    """Write into an output folder what it is asked for, or refuse a folder that was asked for something else.

    Args:
        out: the folder, which is made if there is none.
        file_name: of the file with the request.
        asked: what it is asked for, as JSON has it.
        contents: what the folder holds, a noun for messages.
        growing: keys of `asked` whose values are mappings to which entries may be added, each with a noun for an entry.
        free: keys of `asked` whose values may be others than before.

    Raises:
        JobError: if the folder holds results of another request, or other files.
        DataError: if the file cannot be read.
    """
    file, nouns = out / file_name, growing or {}
    earlier: dict[str, Any] = {}
    if file.is_file():
        earlier = read_json(file, f"what this {contents} was asked for")
        pairs = [(key, earlier.get(key), value) for key, value in asked.items() if key not in nouns and key not in free]
        for key, noun in nouns.items():
            known = earlier.get(key, {})
            pairs += [(f"the {noun} {name!r}", known.get(name, entry), entry) for name, entry in asked[key].items()]
        if differing := [f"{what} was {before} and is {now}" for what, before, now in pairs if before != now]:
            raise JobError(
                f"{out} holds another {contents}: {'; '.join(differing)}. Choose another output folder, or what it was."
            )
    elif out.exists() and any(out.iterdir()):
        raise JobError(f"Expected an empty folder or an earlier {contents}, but {out} holds other files.")
    private_folder(out)
    grown = {key: earlier.get(key, {}) | asked[key] for key in nouns}
    write_text(file, json.dumps({**asked, **grown}, indent=2) + "\n")
