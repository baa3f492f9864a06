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

from fedannot.custom.data import tensor_store
from fedannot.custom.data.tensor_store import PreparedCase, StoredCase, TensorStore, view
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


def load(folder, keys, results=None):
    preparing = Preparing(keys, results)
    cases, flat = TensorStore(folder, KINDS).load(keys, preparing)
    return cases, flat, preparing.prepared


def assert_holds(cases, flat, keys):
    assert [case.key for case in cases] == list(keys)
    for case in cases:
        for kind, tensor in case_of(case.key).tensors.items():
            assert torch.equal(view(flat[kind], case.tensors[kind]), tensor)


def names(folder):
    return sorted(file.name.split("-")[0] for file in folder.iterdir())


COMPLETE = ["image", "index.json", "label", "lock"]


def test_only_what_is_missing_is_prepared_and_the_order_is_that_of_the_keys(tmp_path):
    assert load(tmp_path, "abc")[2] == ["a", "b", "c"]
    assert load(tmp_path, "abc")[2] == []
    for keys, prepared in (("adc", ["d"]), ("cad", []), ("a", []), ("eafa", ["e", "f"]), ("gg", ["g", "g"]), ("", [])):
        cases, flat, found = load(tmp_path, keys)
        assert found == prepared
        assert_holds(cases, flat, keys)
        assert names(tmp_path) == COMPLETE


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
        assert cases[1] == StoredCase("b", {}, None, "is damaged")
    assert prepared == []
    cases, _, prepared = load(tmp_path, "bca")
    assert prepared == []
    assert [case.reason for case in cases] == ["is damaged", None, None]


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
    assert names(tmp_path) == COMPLETE
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
        TensorStore(tmp_path, KINDS).load("acd", interrupted)
    assert names(tmp_path) == COMPLETE
    cases, flat, prepared = load(tmp_path, "ab")
    assert prepared == []
    assert_holds(cases, flat, "ab")


def test_a_first_preparation_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError):
        TensorStore(tmp_path / "new", KINDS).load("a", lambda positions: iter([case_of("a") for _ in [1 / 0]]))
    assert names(tmp_path / "new") == ["lock"]


def in_another_process(function, *arguments):
    """Start a process; forked, since it needs what is imported here."""
    process = multiprocessing.get_context("fork").Process(target=function, args=arguments)
    process.start()
    return process


def killed_while_preparing(folder):
    def prepare(positions):
        yield PreparedCase({"image": torch.ones(10000, 3)})
        os.kill(os.getpid(), signal.SIGKILL)

    TensorStore(folder, KINDS).load("axy", prepare)


def test_a_killed_process_leaves_the_old_state_and_the_next_one_clears_up(tmp_path):
    load(tmp_path, "ab")
    process = in_another_process(killed_while_preparing, tmp_path)
    process.join(30)
    assert process.exitcode == -signal.SIGKILL
    assert len(names(tmp_path)) > len(COMPLETE)
    assert load(tmp_path, "ab")[2] == []
    cases, flat, prepared = load(tmp_path, "abc")
    assert prepared == ["c"]
    assert_holds(cases, flat, "abc")
    assert names(tmp_path) == COMPLETE


def change_index(change):
    def damage(folder):
        content = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        change(content)
        (folder / "index.json").write_text(json.dumps(content))

    return damage


def cut(kind, length):
    def damage(folder):
        (file,) = folder.glob(f"{kind}-*.bin")
        file.write_bytes((file.read_bytes() + bytes(8))[:length])

    return damage


def remove(kind):
    return lambda folder: next(folder.glob(f"{kind}-*.bin")).unlink()


@pytest.mark.parametrize(
    "damage",
    [
        cut("image", 0),
        cut("image", 5),
        cut("image", -4),
        cut("label", 3),
        cut("label", 8),
        remove("image"),
        remove("label"),
        lambda folder: (folder / "index.json").write_bytes(b""),
        lambda folder: (folder / "index.json").write_bytes(b"\xff\x00"),
        lambda folder: (folder / "index.json").write_text((folder / "index.json").read_text(encoding="utf-8")[:-9]),
        lambda folder: (folder / "index.json").write_text("[1]"),
        change_index(lambda content: content.pop("generation")),
        change_index(lambda content: content.update(generation="../../x")),
        change_index(lambda content: content.update(generation="0000")),
        change_index(lambda content: content.update(cases=3)),
        change_index(lambda content: content["cases"].pop(0)),
        change_index(lambda content: content["cases"].reverse()),
        change_index(lambda content: content["cases"][0].pop("key")),
        change_index(lambda content: content["cases"][0].update(tensors=None)),
        change_index(lambda content: content["cases"][0]["tensors"].update(image=[0, [3, 3]])),
        change_index(lambda content: content["cases"][0]["tensors"].update(image=[0, [-2, -3]])),
        change_index(lambda content: content["cases"][0]["tensors"].update(image=[0, ["2", 3]])),
        change_index(lambda content: content["cases"][0]["tensors"].update(image=[3, [2, 3]])),
        change_index(lambda content: content["cases"][0]["tensors"].pop("image")),
    ],
)
def test_damaged_files_are_made_again_with_a_warning(tmp_path, damage, caplog):
    load(tmp_path, "ab")
    damage(tmp_path)
    cases, flat, prepared = load(tmp_path, "ab")
    assert prepared == ["a", "b"]
    assert_holds(cases, flat, "ab")
    assert f"The prepared data in {tmp_path} cannot be read and are made again: " in caplog.text
    assert names(tmp_path) == COMPLETE
    assert load(tmp_path, "ab")[2] == []


def test_threads_at_the_same_time_prepare_once_and_get_the_same(tmp_path):
    results, prepared = [], []

    def work():
        keys = "abcdef"

        def slow(positions):
            for position in positions:
                prepared.append(keys[position])
                time.sleep(0.01)
                yield case_of(keys[position])

        results.append(TensorStore(tmp_path, KINDS).load(keys, slow))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(results) == 4
    for cases, flat in results:
        assert_holds(cases, flat, "abcdef")
    assert sorted(prepared) == list("abcdef")
    assert names(tmp_path) == COMPLETE


def loading_again_and_again(folder):
    for turn in range(30):
        keys = "abcdef"[turn % 3 : turn % 3 + 3]
        cases, flat, _ = load(folder, keys)
        assert_holds(cases, flat, keys)


def test_processes_that_want_different_cases_never_see_a_wrong_one(tmp_path):
    processes = [in_another_process(loading_again_and_again, tmp_path) for _ in range(3)]
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert names(tmp_path) == COMPLETE


def test_a_wait_that_takes_too_long_ends_with_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(tensor_store, "_LONGEST_WAIT", 0.1)
    with (tmp_path / "lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(DataError, match=rf"{tmp_path}: another process has prepared data there for more than"):
            load(tmp_path, "a")
    assert load(tmp_path, "a")[2] == ["a"]


def test_a_disk_without_locks_is_used_with_a_warning(tmp_path, monkeypatch, caplog):
    def without_locks(*args):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(tensor_store.fcntl, "flock", without_locks)
    with caplog.at_level(logging.WARNING):
        assert load(tmp_path, "a")[2] == ["a"]
    assert "the disk has no locks" in caplog.text


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 3, 4)])
def test_a_view_has_the_shape_and_shares_memory(shape):
    flat = torch.arange(30.0)
    part = view(flat, (5, shape))
    assert part.shape == shape
    np.testing.assert_array_equal(part.flatten(), np.arange(5, 5 + int(np.prod(shape))))
    if part.numel():
        assert part.data_ptr() == flat[5:].data_ptr()
