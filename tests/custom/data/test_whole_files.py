"""Files are written whole or not at all."""

import pytest

from fedannot.custom.data import whole_files
from fedannot.custom.data.whole_files import write_text


def test_text_is_written_in_one_step(tmp_path, monkeypatch):
    file = tmp_path / "summary.json"
    write_text(file, "first")
    monkeypatch.setattr(whole_files.Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("crash")))
    with pytest.raises(OSError, match="crash"):
        write_text(file, "second")
    assert file.read_text(encoding="utf-8") == "first"
