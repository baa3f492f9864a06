"""Models that wait come back whole, in the order of the sites' names, and leave nothing behind."""

import os
import stat

import pytest
import torch

from fedannot.custom.aggregation.model_spool import ModelSpool
from fedannot.custom.aggregation.quantised_updates import QuantisedUpdate, quantised
from fedannot.transforms.errors import DataError

# Of all types, without elements and without axes, and one whose bytes are in another order than its values.
MODEL = {
    "w": torch.randn(3, 2),
    "of a larger one": torch.randn(4, 6).t()[1:3],
    "half": torch.randn(5).bfloat16(),
    "flag": torch.tensor([True, False, True]),
    "none": torch.zeros(0, 4),
    "counter": torch.tensor(7),
}
SIZE = sum(tensor.numel() * tensor.element_size() for tensor in MODEL.values())


def test_models_come_back_in_the_order_of_the_names_whatever_the_order_of_arrival(tmp_path):
    spool = ModelSpool(tmp_path / "waiting")
    sent = {}
    for site in ("site-2", "site-10", "../strange/name", "site-1"):
        sent[site] = {"w": torch.randn(3, 2), "counter": torch.tensor(len(site))}
        spool.put(site, sent[site], len(site))
        assert site in spool
    back = list(spool.models())
    assert [(site, samples) for site, _, samples in back] == [(site, len(site)) for site in sorted(sent)]
    for site, params, _ in back:
        assert all(torch.equal(params[name], sent[site][name]) for name in sent[site])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_folder_of_an_interrupted_round_is_emptied_and_removed(tmp_path):
    folder = tmp_path / "waiting"
    ModelSpool(folder).put("site-1", {"w": torch.zeros(1)}, 1)
    spool = ModelSpool(folder)
    assert "site-1" not in spool
    assert list(spool.models()) == []
    spool.remove()
    assert not folder.exists()


def test_two_models_of_a_site_are_refused(tmp_path):
    spool = ModelSpool(tmp_path / "waiting")
    spool.put("site-1", {"w": torch.zeros(1)}, 1)
    with pytest.raises(ValueError, match="site-1 was added twice"):
        spool.put("site-1", {"w": torch.zeros(1)}, 1)


@pytest.mark.parametrize("memory", [0, SIZE, 10 * SIZE])
def test_models_are_the_same_in_memory_and_on_disk(tmp_path, memory):
    spool = ModelSpool(tmp_path / "waiting", memory)
    sent = {name: tensor.clone() for name, tensor in MODEL.items()}
    for site in ("a", "b"):
        spool.put(site, sent, 1)
    for tensor in sent.values():
        # The sender goes on with its tensors.
        tensor.zero_()
    for site in ("a", "b"):
        own = spool.params(site)
        for params in (own, spool.shared(site), spool.mapped(site)):
            assert {name: (tensor.dtype, tensor.shape) for name, tensor in params.items()} == {
                name: (tensor.dtype, tensor.shape) for name, tensor in MODEL.items()
            }
            assert all(torch.equal(params[name], MODEL[name]) for name in MODEL)
        own["w"].zero_()
        assert torch.equal(spool.mapped(site)["w"], MODEL["w"])
        assert torch.equal(spool.params(site)["w"], MODEL["w"])
    files = list((tmp_path / "waiting").iterdir())
    assert len(files) == 2 - min(memory // SIZE, 2)
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    spool.keep_only({"b"})
    assert spool.sites == ("b",)
    assert len(list((tmp_path / "waiting").iterdir())) == (1 if memory < 2 * SIZE else 0)


def test_memory_that_models_have_left_is_had_by_others(tmp_path):
    spool = ModelSpool(tmp_path / "waiting", SIZE)
    spool.put("a", MODEL, 1)
    assert [site for site, _, _ in spool.models()] == ["a"]
    spool.put("b", MODEL, 1)
    assert list((tmp_path / "waiting").iterdir()) == []


def shortened(file):
    os.truncate(file, 5)


def replaced(file):
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content)


def changed(file):
    with file.open("r+b") as stream:
        stream.write(b"lies")
    os.utime(file, ns=(0, 1))


def linked(file):
    other = file.with_name("other")
    file.rename(other)
    file.symlink_to(other)


@pytest.mark.parametrize("attack", [shortened, replaced, changed, linked, os.unlink])
def test_a_file_that_is_not_as_it_was_written_is_refused(tmp_path, attack):
    spool = ModelSpool(tmp_path / "waiting")
    spool.put("a", MODEL, 1)
    (file,) = (tmp_path / "waiting").iterdir()
    attack(file)
    for read in (spool.params, spool.shared, spool.mapped):
        with pytest.raises(DataError, match=r"0\.raw: a site's model that waits"):
            read("a")


def test_of_a_model_that_finds_no_room_nothing_stays(tmp_path, monkeypatch):
    spool = ModelSpool(tmp_path / "waiting")
    write = os.write

    def until_the_disk_is_full(descriptor, content):
        if len(content) == 7:
            raise OSError(28, "No space left on device")
        return write(descriptor, content)

    monkeypatch.setattr(os, "write", until_the_disk_is_full)
    with pytest.raises(OSError, match="No space left"):
        spool.put("a", {"first": torch.zeros(4), "second": torch.zeros(7, dtype=torch.uint8)}, 1)
    assert "a" not in spool
    assert list((tmp_path / "waiting").iterdir()) == []


def test_a_file_that_somebody_put_in_place_is_not_written_to(tmp_path):
    spool = ModelSpool(tmp_path / "waiting")
    (tmp_path / "waiting" / "0.raw").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        spool.put("a", MODEL, 1)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize(("precision", "part"), [("bf16", 2), ("int8", 4)])
def test_updates_in_fewer_bits_wait_as_their_messages(tmp_path, precision, part, in_memory):
    reference = {"w": torch.randn(64, 512), "bias": torch.randn(64), "counter": torch.tensor(7)}
    trained = {"w": torch.randn(64, 512), "bias": torch.randn(64), "counter": torch.tensor(9)}
    message = quantised(trained, reference, precision, ["w", "bias"]).sent
    update = QuantisedUpdate(message, reference, ["w", "bias"])
    expected = {name: tensor.clone() for name, tensor in update.items()}
    # A message and a little, which is not enough for a second one.
    spool = ModelSpool(tmp_path / "waiting", 4 * 64 * 512 // part + 1000 if in_memory else 0)
    for site in ("a", "b"):
        spool.put(site, update, 3)
    message["w"].zero_()
    for site in ("a", "b"):
        own = spool.params(site)
        for params in (own, spool.shared(site), spool.mapped(site)):
            assert list(params) == list(reference)
            assert all(torch.equal(params[name], expected[name]) for name in expected)
        own["bias"].zero_()
        assert torch.equal(spool.params(site)["bias"], expected["bias"])
    files = [file.stat().st_size for file in (tmp_path / "waiting").iterdir()]
    assert len(files) == (1 if in_memory else 2)
    assert all(4 * 64 * 512 / part < size < 4 * 64 * 512 / part + 1000 for size in files)
    assert [site for site, params, samples in spool.models() if torch.equal(params["w"], expected["w"])] == ["a", "b"]
