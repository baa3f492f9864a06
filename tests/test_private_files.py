"""Files that show or name patients are private: whoever writes one uses the writers of `whole_files`, or says why not.

The list of exceptions is the point: a new writer fails here until it is private, or somebody has thought about it.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted(path for package in ("transforms", "custom", "apps") for path in (ROOT / package).rglob("*.py"))

# What makes files or folders, whatever it is called on.
WRITERS = {
    *("mkdir", "makedirs", "touch", "symlink_to", "link", "hardlink_to"),
    *("write_text", "write_bytes", "savefig", "tofile", "save", "savez", "savez_compressed", "to_file", "to_filename"),
    *("copyfile", "copy", "copy2", "copytree", "move", "WriteImage", "save_as", "FileHandler"),
}
# `copy` of a dictionary, `save` of a state: no file is written by a call without an argument, or not there.
NEEDS_ARGUMENT = {"save", "link"}
# Of `shutil` alone: arrays and dictionaries are copied, too, and contours moved.
OF_SHUTIL = {"copy", "copy2", "move"}
# In whose block everything is private, or what a file's path goes through.
PRIVATE_BLOCKS = {"replaced", "new_folder"}
PRIVATE_CALLS = {"private_file", "private_folder"}

_SHARED = "nothing of a patient is in it, and others use it"
_MEMORY = "writes into memory or to another process"
_OF_A_BUNDLE = "in a bundle, where its user decides"
_OF_ANOTHER = "the writer that it calls is private"
EXCEPTIONS = {
    "apps/audit/federation_page.py:write_federation_page": _SHARED,
    "apps/audit/shared_page.py:write_shared_page": _SHARED,
    "apps/bundling/export.py:_write_json": _SHARED,
    "apps/bundling/reading_code.py:write_reading_code": _SHARED,
    "transforms/loading/folder_results.py:_target": _OF_A_BUNDLE,
    "transforms/loading/folder_results.py:write": _OF_A_BUNDLE,
    "transforms/loading/folder_results.py:_write_volume": _OF_A_BUNDLE,
    "apps/deployment/kit.py:prepare_kit": _SHARED,
    "custom/run/schemas.py:write_schemas": _SHARED,
    "apps/audit/case_pictures.py:encoded": _MEMORY,
    "apps/audit/file_pixels.py:_given": _MEMORY,
    "apps/audit/mask_planes.py:to_file": _MEMORY,
    "apps/audit/mending.py:store": _MEMORY,
    "custom/corrections/pixels.py:write_pixels": _MEMORY,
    "custom/flare/task_process.py:_packed": _MEMORY,
    "custom/flare/swarm_executor.py:do_task": _OF_ANOTHER,
    "custom/run/round_loop.py:_finish": _OF_ANOTHER,
    "custom/flare/tracking.py:save": "a tracking server gets numbers alone",
    "apps/audit/running.py:_federation": "a link, in a private folder",
    "apps/audit/exporting.py:_write_given": "a link where it is asked for, in a private folder",
    "apps/reports/swarm_output.py:embedded_federation": "a link, in a folder of tempfile's",
    "apps/runs/participants.py:__init__": "a job, made private at once, in a private folder",
    "apps/runs/job.py:copy_with": "a job; what copies it into a run makes it private",
    "apps/runs/tracking.py:add_to": "of that copy of a job",
    "transforms/loading/volume_files.py:write_label_volume": "is given a private file",
    "transforms/loading/volume_files.py:write_voxels_like": "is given a private file",
    "apps/planning/measured_run.py:send_and_average": _MEMORY,
    "custom/data/splits.py:_link": "a link or a copy, in a folder that a private one holds",
    "custom/data/splits.py:_linked": _OF_ANOTHER,
    "custom/data/file_locks.py:_try": "a lock, with 0600 of its own",
    "custom/flare/private_log.py:_opened": "a log, with 0600 of its own",
    "custom/data/whole_files.py:private_file": "the writer itself",
    "custom/data/whole_files.py:new_folder": "the writer itself",
    "custom/data/whole_files.py:new_private_file": "the writer itself",
    "custom/data/whole_files.py:make_private_folder": "what a private folder lies in",
    "custom/data/whole_files.py:_make": "the writer itself",
    "custom/data/whole_files.py:_workplace": "the writer itself",
}


def called(node):
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def opens_for_writing(node):
    """Whether it is an `open` with a mode that writes, or an `os.open` that may make a file."""
    if called(node) != "open":
        return False
    if "O_CREAT" in ast.dump(node):
        return True
    values = [*node.args[:2], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
    return any(
        isinstance(value, ast.Constant)
        and isinstance(value.value, str)
        and set(value.value) & set("wax+")
        and len(value.value) <= 3
        for value in values
    )


def writes(node):
    name = called(node)
    if name == "write_text" and isinstance(node.func, ast.Name):
        # The one of whole_files.
        return False
    if name in OF_SHUTIL and getattr(getattr(node.func, "value", None), "id", "") != "shutil":
        return False
    return (name in WRITERS and bool(node.args or name not in NEEDS_ARGUMENT)) or opens_for_writing(node)


def is_private(node, parents):
    """Whether a call writes to what is private: by its own path, or by the block that it stands in."""
    if any(isinstance(inner, ast.Call) and called(inner) in PRIVATE_CALLS for inner in ast.walk(node)):
        return True
    while node in parents:
        node = parents[node]
        if isinstance(node, ast.With) and any(
            isinstance(item.context_expr, ast.Call) and called(item.context_expr) in PRIVATE_BLOCKS
            for item in node.items
        ):
            return True
    return False


def unguarded(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and writes(node) and not is_private(node, parents):
            function = node
            while function in parents and not isinstance(function, ast.FunctionDef):
                function = parents[function]
            yield f"{path.relative_to(ROOT)}:{getattr(function, 'name', '')}", ast.unparse(node)[:100]


def test_what_writes_is_private_or_has_a_reason():
    assert [found for path in MODULES for found in unguarded(path) if found[0] not in EXCEPTIONS] == []


def test_no_exception_is_left_of_what_is_gone():
    assert set(EXCEPTIONS) <= {where for path in MODULES for where, _ in unguarded(path)}


@pytest.mark.parametrize(
    "line",
    [
        "file.write_text(page)",
        "file.open('w')",
        "file.open(mode='ab')",
        "open(file, 'x')",
        "os.open(file, os.O_WRONLY | os.O_CREAT, 0o644)",
        "figure.savefig(file)",
        "nibabel.save(image, file)",
        "Image.fromarray(pixels).save(file)",
        "SimpleITK.WriteImage(image, str(file))",
        "shutil.copy(source, file)",
        "folder.mkdir()",
        "np.savez(file, a=a)",
    ],
)
def test_a_writer_is_found_where_it_is_not_private(line, tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    for text, is_found in (
        (line, True),
        (line.replace("file", "private_file(file)").replace("folder.mkdir()", "private_folder(folder)"), False),
        (f"with replaced(target) as file:\n    {line}", False),
        (f"with opened(target) as file:\n    {line}", True),
    ):
        (tmp_path / "module.py").write_text(f"{text}\n")
        assert bool(list(unguarded(tmp_path / "module.py"))) is is_found


@pytest.mark.parametrize("line", ["values.copy()", "copy(case, 'labels')", "file.open('rb')", "move(region, points)"])
def test_what_writes_nothing_is_no_writer(line, tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    (tmp_path / "module.py").write_text(line)
    assert list(unguarded(tmp_path / "module.py")) == []


def test_what_others_may_read_is_known():
    """Who gives something away has thought about what is in it."""
    shared = {
        str(path.relative_to(ROOT))
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and any(keyword.arg == "shared" and getattr(keyword.value, "value", None) is True for keyword in node.keywords)
    }
    assert shared == {
        "apps/audit/federation_page.py",
        "apps/audit/shared_page.py",
        "apps/bundling/export.py",
        "apps/deployment/deployable_job.py",
        "apps/runs/installed.py",
        "apps/runs/nvflare_recipe.py",
        # Links have the modes of their files, and the folder above is private.
        "custom/data/splits.py",
        "custom/run/schemas.py",
    }
