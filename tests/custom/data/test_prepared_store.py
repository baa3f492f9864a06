import fcntl
import json
import logging
import multiprocessing
import os
import signal
import threading
import time

import numpy as np
import pytest
import torch

from fedannot.custom.data import file_locks
from fedannot.custom.data.prepared_pack import PreparedCase, StoredCase, WantedCase, view
from fedannot.custom.data.prepared_store import PreparedStore
from fedannot.custom.data.store_folder import StoreLimits
from fedannot.transforms.errors import DataError

KINDS = {"image": torch.float32, "label": torch.uint8}


def case_of(key, *, length=2, spacing=None):
    """Tensors that say what they were made of."""
    number = sum(map(ord, key))
    image = torch.arange(length * 3, dtype=torch.float32).reshape(length, 3) + number
    return PreparedCase({"image": image, "label": torch.full((length,), number % 256, dtype=torch.uint8)}, spacing)


class Preparing:
    """Prepares cases and counts which."""

    def __init__(self, keys, results=None):
        self.keys, self.results, self.prepared = keys, results or {}, []

    def __call__(self, positions):
        for position in positions:
            key = self.keys[position]
            self.prepared.append(key)
            yield self.results.get(key, case_of(key))


def wanted(keys, origin="here"):
    return [WantedCase(key, origin) for key in keys]


def load(folder, keys, results=None, origin="here"):
    preparing = Preparing(keys, results)
    cases, flat = PreparedStore(folder).load(wanted(keys, origin), KINDS, preparing)
    return cases, flat, preparing.prepared


def assert_holds(cases, flat, keys):
    assert [case.key for case in cases] == list(keys)
    for case in cases:
        for kind, tensor in case_of(case.key).tensors.items():
            assert torch.equal(view(flat[kind], case.tensors[kind]), tensor)


def files_in(folder, part):
    return sorted(file.name for file in (folder / part).iterdir())


def assert_whole(folder, packs):
    """Nothing unfinished, so many packs, and no tensor that no pack needs."""
    assert files_in(folder, "unfinished") == []
    indexes = [(folder / "packs" / name).read_text(encoding="utf-8") for name in files_in(folder, "packs")]
    assert len(indexes) == packs
    needed = {blob for index in indexes for blob in json.loads(index.partition("\n")[0])["blobs"].values()}
    assert set(files_in(folder, "blobs")) == needed


def test_only_what_is_missing_is_prepared_and_the_order_is_that_of_the_keys(tmp_path):
    assert load(tmp_path, "abc")[2] == ["a", "b", "c"]
    assert load(tmp_path, "abc")[2] == []
    for keys, prepared in (("adc", ["d"]), ("cad", []), ("a", []), ("eafa", ["e", "f"]), ("gg", ["g", "g"]), ("", [])):
        cases, flat, result = load(tmp_path, keys)
        assert result == prepared
        assert_holds(cases, flat, keys)
    assert_whole(tmp_path, 7)
    assert load(tmp_path, "abc")[2] == [], "what was there before stays"


def test_cases_lie_one_after_the_other(tmp_path):
    cases, flat, _ = load(tmp_path, "abc", {"b": case_of("b", length=5)})
    assert [case.tensors["image"] for case in cases] == [(0, (2, 3)), (6, (5, 3)), (21, (2, 3))]
    assert [case.tensors["label"] for case in cases] == [(0, (2,)), (2, (5,)), (7, (2,))]
    assert flat["image"].shape == (27,)


def test_reasons_and_spacings_are_kept(tmp_path):
    results = {"b": "is damaged", "c": case_of("c", spacing=(1.0, 0.5, 2.25))}
    for _ in range(2):
        cases, _, prepared = load(tmp_path, "abc", results)
        assert [case.reason for case in cases] == [None, "is damaged", None]
        assert [case.spacing for case in cases] == [None, None, (1.0, 0.5, 2.25)]
        assert cases[1] == StoredCase("b", {}, None, "is damaged", origin=wanted("b")[0].hashed_origin)
    assert prepared == []
    cases, _, prepared = load(tmp_path, "bca")
    assert prepared == []
    assert [case.reason for case in cases] == ["is damaged", None, None]


def test_a_reason_counts_where_the_files_lie_and_a_usable_case_everywhere(tmp_path):
    assert load(tmp_path, "ab", {"b": "here/b is damaged"})[2] == ["a", "b"]
    for _ in range(2):
        cases, flat, prepared = load(tmp_path, "ab", {"b": "there/b is damaged"}, origin="there")
        assert [case.reason for case in cases] == [None, "there/b is damaged"]
        assert_holds(cases[:1], flat, "a")
    assert prepared == []
    assert_whole(tmp_path, 1)


def test_the_same_tensors_of_two_packs_are_one_file(tmp_path):
    load(tmp_path, "ab")
    before = files_in(tmp_path, "blobs")
    corrected = {
        key: PreparedCase({"image": case_of(old).tensors["image"], "label": torch.full((2,), 9, dtype=torch.uint8)})
        for key, old in (("x", "a"), ("y", "b"))
    }
    cases, flat, _ = load(tmp_path, "xy", corrected)
    after = files_in(tmp_path, "blobs")
    assert len(before) == 2
    assert len(set(after) - set(before)) == 1
    assert_whole(tmp_path, 2)
    assert torch.equal(view(flat["image"], cases[1].tensors["image"]), case_of("b").tensors["image"])


def test_a_kind_that_no_case_has_and_cases_that_lack_one(tmp_path):
    only_image = PreparedCase({"image": torch.ones(1, 2)})
    cases, flat, _ = load(tmp_path, "a", {"a": only_image})
    assert list(cases[0].tensors) == list(flat) == ["image"]
    cases, flat, _ = load(tmp_path, "ab", {})
    assert list(cases[0].tensors) == ["image"]
    assert torch.equal(view(flat["label"], cases[1].tensors["label"]), case_of("b").tensors["label"])


def test_writing_to_a_tensor_changes_no_file(tmp_path):
    _, flat, _ = load(tmp_path, "ab")
    flat["image"][:] = -1
    cases, flat, _ = load(tmp_path, "ab")
    assert_holds(cases, flat, "ab")


def test_what_is_mapped_stays_when_the_files_are_renewed(tmp_path):
    cases, flat, _ = load(tmp_path, "ab")
    load(tmp_path, "cd")
    assert_holds(cases, flat, "ab")


def test_a_tensor_of_another_type_is_an_error_and_leaves_the_old_state(tmp_path):
    load(tmp_path, "ab")
    wrong = PreparedCase({"image": torch.zeros(2, 3, dtype=torch.float64)})
    with pytest.raises(TypeError, match=r"Expected image as torch\.float32, but the pipeline gives torch\.float64"):
        load(tmp_path, "ac", {"c": wrong})
    assert_whole(tmp_path, 1)
    assert load(tmp_path, "ab")[2] == []


class Interrupted(BaseException):
    """Like KeyboardInterrupt."""


@pytest.mark.parametrize("error", [Interrupted, OSError, MemoryError])
def test_an_interrupted_preparation_leaves_the_old_state_and_nothing_else(tmp_path, error):
    load(tmp_path, "ab")

    def interrupted(positions):
        yield case_of("c")
        raise error

    with pytest.raises(error):
        PreparedStore(tmp_path).load(wanted("acd"), KINDS, interrupted)
    assert_whole(tmp_path, 1)
    cases, flat, prepared = load(tmp_path, "ab")
    assert prepared == []
    assert_holds(cases, flat, "ab")


def test_a_first_preparation_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError):
        PreparedStore(tmp_path / "new").load(
            wanted("a"), KINDS, lambda positions: iter([case_of("a") for _ in [1 / 0]])
        )
    assert_whole(tmp_path / "new", 0)


def in_another_process(function, *arguments):
    """Start a process; forked, since it needs what is imported here."""
    process = multiprocessing.get_context("fork").Process(target=function, args=arguments)
    process.start()
    return process


def killed_while_preparing(folder):
    def prepare(positions):
        yield PreparedCase({"image": torch.ones(10000, 3)})
        os.kill(os.getpid(), signal.SIGKILL)

    PreparedStore(folder).load(wanted("axy"), KINDS, prepare)


def test_a_killed_process_leaves_the_old_state_and_the_next_one_clears_up(tmp_path):
    load(tmp_path, "ab")
    process = in_another_process(killed_while_preparing, tmp_path)
    process.join(30)
    assert process.exitcode == -signal.SIGKILL
    assert files_in(tmp_path, "unfinished")
    assert load(tmp_path, "ab")[2] == []
    cases, flat, prepared = load(tmp_path, "abc")
    assert prepared == ["c"]
    assert_holds(cases, flat, "abc")
    assert_whole(tmp_path, 2)
    assert load(tmp_path, "axy")[2] == ["x", "y"], "nothing of it counts"


def index_of(folder):
    (file,) = (folder / "packs").iterdir()
    return file


def change_index(change):
    """Change the header and the list of cases of the pack."""

    def damage(folder):
        header, cases = map(json.loads, index_of(folder).read_text(encoding="utf-8").splitlines())
        change(header, cases)
        index_of(folder).write_text(f"{json.dumps(header)}\n{json.dumps(cases)}\n")

    return damage


def blob_of(folder, kind):
    return folder / "blobs" / json.loads(index_of(folder).read_text(encoding="utf-8").partition("\n")[0])["blobs"][kind]


def cut(kind, length):
    def damage(folder):
        file = blob_of(folder, kind)
        file.write_bytes((file.read_bytes() + bytes(8))[:length])

    return damage


def replace_by_link(folder):
    file = blob_of(folder, "image")
    file.rename(folder.parent / "elsewhere")
    file.symlink_to(folder.parent / "elsewhere")


def write_index(content):
    return lambda folder: index_of(folder).write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        cut("image", 0),
        cut("image", 5),
        cut("image", -4),
        cut("label", 3),
        cut("label", 8),
        lambda folder: blob_of(folder, "image").unlink(),
        lambda folder: blob_of(folder, "label").unlink(),
        replace_by_link,
        write_index(b""),
        write_index(b"\xff\x00"),
        write_index(b"[1]\n[]"),
        write_index(b"{}\n[]"),
        lambda folder: index_of(folder).write_text(index_of(folder).read_text(encoding="utf-8")[:-9]),
        change_index(lambda header, cases: header.pop("format")),
        change_index(lambda header, cases: header.update(format=2)),
        change_index(lambda header, cases: header["blobs"].pop("label")),
        change_index(lambda header, cases: header["blobs"].update(image="../../x")),
        change_index(lambda header, cases: header["blobs"].update(image="0" * 64)),
        change_index(lambda header, cases: header["blobs"].update(other="0" * 64)),
        change_index(lambda header, cases: header.update(blobs=3)),
        change_index(lambda header, cases: cases.pop(0)),
        change_index(lambda header, cases: cases.reverse()),
        change_index(lambda header, cases: cases[0].pop("key")),
        change_index(lambda header, cases: cases[0].pop("origin")),
        change_index(lambda header, cases: cases[0].update(tensors=None)),
        change_index(lambda header, cases: cases[0]["tensors"].update(image=[0, [3, 3]])),
        change_index(lambda header, cases: cases[0]["tensors"].update(image=[0, [-2, -3]])),
        change_index(lambda header, cases: cases[0]["tensors"].update(image=[0, ["2", 3]])),
        change_index(lambda header, cases: cases[0]["tensors"].update(image=[3, [2, 3]])),
        change_index(lambda header, cases: cases[0]["tensors"].pop("image")),
    ],
)
def test_damaged_files_are_made_again_with_a_warning(tmp_path, damage, caplog):
    root = tmp_path / "store"
    load(root, "ab")
    damage(root)
    cases, flat, prepared = load(root, "ab")
    assert prepared == ["a", "b"]
    assert_holds(cases, flat, "ab")
    assert f"The prepared data in {index_of(root)} cannot be read and are made again: " in caplog.text
    assert_whole(root, 1)
    assert load(root, "ab")[2] == []


def test_threads_at_the_same_time_prepare_once_and_get_the_same(tmp_path):
    results, prepared = [], []

    def work():
        keys = "abcdef"

        def slow(positions):
            for position in positions:
                prepared.append(keys[position])
                time.sleep(0.01)
                yield case_of(keys[position])

        results.append(PreparedStore(tmp_path).load(wanted(keys), KINDS, slow))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(results) == 4
    for cases, flat in results:
        assert_holds(cases, flat, "abcdef")
    assert sorted(prepared) == list("abcdef")
    assert_whole(tmp_path, 1)


def test_another_list_of_cases_is_prepared_meanwhile(tmp_path):
    begun, go_on = threading.Event(), threading.Event()

    def waiting(positions):
        begun.set()
        assert go_on.wait(30)
        yield case_of("a")

    thread = threading.Thread(target=lambda: PreparedStore(tmp_path).load(wanted("a"), KINDS, waiting))
    thread.start()
    assert begun.wait(30)
    assert load(tmp_path, "b")[2] == ["b"]
    go_on.set()
    thread.join(30)
    assert load(tmp_path, "ab")[2] == []
    assert_whole(tmp_path, 3)


def loading_again_and_again(folder, max_bytes):
    for turn in range(30):
        keys = "abcdef"[turn % 3 : turn % 3 + 3]
        cases, flat = PreparedStore(folder, StoreLimits(max_bytes)).load(wanted(keys), KINDS, Preparing(keys))
        assert_holds(cases, flat, keys)


@pytest.mark.parametrize("max_bytes", [2**30, 1], ids=["room for all", "room for one"])
def test_processes_that_want_different_cases_never_see_a_wrong_one(tmp_path, max_bytes):
    processes = [in_another_process(loading_again_and_again, tmp_path, max_bytes) for _ in range(3)]
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    load(tmp_path, "x")
    assert_whole(tmp_path, 4 if max_bytes > 1 else len(files_in(tmp_path, "packs")))


def test_a_wait_that_takes_too_long_ends_with_an_error(tmp_path, monkeypatch):
    load(tmp_path, "b")
    monkeypatch.setattr(file_locks, "_LONGEST_WAIT", 0.1)
    with (tmp_path / "locks" / "store").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(DataError, match=rf"{tmp_path}: another process has prepared data there for more than"):
            load(tmp_path, "a")
    assert load(tmp_path, "a")[2] == ["a"]


def test_a_disk_without_locks_is_used_with_a_warning(tmp_path, monkeypatch, caplog):
    def without_locks(*args):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(file_locks.fcntl, "flock", without_locks)
    with caplog.at_level(logging.WARNING):
        assert load(tmp_path, "a")[2] == ["a"]
    assert "the disk has no locks" in caplog.text
    assert load(tmp_path, "a")[2] == []


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 3, 4)])
def test_a_view_has_the_shape_and_shares_memory(shape):
    flat = torch.arange(30.0)
    part = view(flat, (5, shape))
    assert part.shape == shape
    np.testing.assert_array_equal(part.flatten(), np.arange(5, 5 + int(np.prod(shape))))
    if part.numel():
        assert part.data_ptr() == flat[5:].data_ptr()
