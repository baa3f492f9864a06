"""The channels of an image as a review shows them: those of the network, in the pixels of the files."""

import json
import os

import numpy as np
import pytest
from PIL import Image
from support.chromium import accessibility_faults, chromium
from support.four_channels import (
    AFFINE,
    NAMES,
    SHAPE,
    TURNED,
    channels_of,
    label_of,
    resampled_by_itk,
    save,
    write_site,
)
from support.served_reviews import new_address, serving
from test_pages_in_a_browser import open_page, press, text_of, wait_for
from test_review import WRONG, ask, mask_path, tile_path

from fedannot.apps.audit.file_channels import FileChannels
from fedannot.apps.audit.found import FoundAudit
from fedannot.custom.audit.findings import AuditedCase, SiteAudit
from fedannot.custom.data.datalist import TRAINING, read_datalist
from fedannot.custom.data.description import ImageDescription, read_site_description
from fedannot.transforms.errors import DataError

WINDOWS = {"T1": (0, 9), "T1c": (1, 8), "T2": (2, 7), "FLAIR": (3, 6)}


def channels_of_site(folder, index=0):
    case = read_datalist(folder / "datalist.json").section(TRAINING)[index]
    return FileChannels(case.image_files, read_site_description(folder))


@pytest.mark.parametrize("stacked", [False, True])
def test_every_channel_of_a_volume_lies_on_the_grid_of_the_first(tmp_path, stacked):
    channels = channels_of_site(write_site(tmp_path, stacked=stacked))
    assert (channels.names, channels.first) == (list(NAMES), 0)
    *same, flair = channels_of(0)
    for number, expected in enumerate([*same, resampled_by_itk(flair, TURNED)]):
        found = channels.grid.to_file(channels.values(number))
        np.testing.assert_allclose(found, expected, atol=2e-3)
        described = channels.describe(number)
        assert described["channel"] == number
        assert described["range"] == pytest.approx((expected.min(), expected.max()), abs=2e-3)
        assert described["window"] == pytest.approx(np.quantile(expected, (0.01, 0.99)), abs=0.5)
    np.testing.assert_allclose(channels.grid.affine, AFFINE, atol=1e-6)
    for wrong in (-1, 4):
        with pytest.raises(LookupError):
            channels.values(wrong)


def test_a_missing_channel_is_zeros_and_named_so_and_the_first_that_is_there_is_shown(tmp_path):
    write_site(tmp_path, missing=(0,))
    lines = (tmp_path / "data.yaml").read_text()
    windows = [list(own) for own in WINDOWS.values()]
    (tmp_path / "data.yaml").write_text(
        f"{lines}missing_channels: zeros\nintensity: window\nchannel_windows: {windows}\n"
    )
    channels = channels_of_site(tmp_path)
    assert (channels.names[:2], channels.first) == (["T1 (missing)", "T1c"], 1)
    np.testing.assert_array_equal(channels.grid.to_file(channels.values(1)), channels_of(0)[1])
    assert not channels.values(0).any()
    # Each has the window that the network gets.
    assert [channels.window(number) for number in range(4)] == list(WINDOWS.values())


def test_a_file_for_each_channel_of_a_picture_is_read_once_when_it_is_asked_for(tmp_path, monkeypatch):
    from fedannot.apps.audit import file_channels

    values = np.random.default_rng(0).integers(0, 60000, (3, 7, 5)).astype(np.uint16)
    files = tuple(tmp_path / f"{number}.png" for number in range(4))
    for file, own in zip(files, [*values, values[0, :6]], strict=True):
        Image.fromarray(own).save(file)
    names, read = ("red", "green", "blue", "far"), []
    description = ImageDescription(channels=names, size=(8, 8), labels={0: 0, 1: 1}, classes=("a",))
    original = file_channels.read_displayed
    monkeypatch.setattr(file_channels, "read_displayed", lambda *given: read.append(given[0]) or original(*given))
    channels = FileChannels(files, description)
    assert channels.names == list(names)
    held = channels.nbytes
    for number in (2, 1, 2):
        np.testing.assert_array_equal(channels.grid.to_file(channels.values(number)), values[number])
    assert read == [files[0], files[2], files[1]]
    assert channels.nbytes == 3 * held
    with pytest.raises(DataError, match=r"3\.png: found channel 'far' \(4 of 4\) of 6 × 5 pixels.*0\.png, 7 × 5"):
        channels.values(3)


def test_colours_and_grey_images_leave_no_choice(tmp_path):
    for count, shape in ((1, (4, 6)), (3, (4, 6, 3))):
        Image.fromarray(np.full(shape, 7, np.uint8)).save(tmp_path / "image.png")
        description = ImageDescription(channels=count, size=(8, 8), labels={0: 0, 1: 1}, classes=("a",))
        channels = FileChannels(tmp_path / "image.png", description)
        assert (channels.names, channels.describe(0)["colours"]) == ([], count == 3)
        with pytest.raises(LookupError):
            channels.values(1)


def test_small_numbers_fill_the_window_and_equal_ones_have_one(tmp_path):
    # Such as diffusion in mm²/s.
    values = np.linspace(0, 0.003, 40, dtype=np.float32).reshape(5, 8)
    files = tuple(tmp_path / f"{number}.tif" for number in range(2))
    for file, own in zip(files, (values, np.full_like(values, 0.25)), strict=True):
        Image.fromarray(own).save(file)
    description = ImageDescription(channels=("ADC", "flat"), size=(8, 8), labels={0: 0, 1: 1}, classes=("a",))
    channels = FileChannels(files, description)
    assert channels.window(0) == pytest.approx(np.quantile(values, (0.01, 0.99)))
    assert channels.window(1) == (0.25, 1.25)


def found_audit(folder, count=2):
    """An audit of a site with four channels, of cases without a finding."""
    write_site(folder, count=count)
    cases = tuple(
        AuditedCase(image=f"images/case_{index}_0000.nii.gz", label=f"labels/case_{index}.nii.gz", unit=str(index))
        for index in range(count)
    )
    audit = SiteAudit(
        site="s", data=str(folder), method="audit", made="2026-01-01T00:00:00+00:00", model_sha256="ab" * 32,
        predicted_by={"folds": 1}, task="segmentation", classes=("a",), unit="mm", num_cases=count,
        num_patients=count, cases=cases,
    )  # fmt: skip
    return FoundAudit(folder, audit)


def test_a_page_is_given_the_channels_that_there_are_and_no_other(tmp_path):
    with serving(found_audit(tmp_path)) as server:
        content = json.loads(ask(server, "/case/0")[2])
        assert (content["channels"], content["channel"]) == (list(NAMES), 0)
        path = f"/channel/0?version={content['version']}&channel="
        before = held(server, 0)
        assert json.loads(ask(server, f"{path}3")[2])["channel"] == 3
        assert held(server, 0) == before + 4 * np.prod(SHAPE)
        tile = tile_path(content, plane=2, channel=3)
        assert len(ask(server, tile)[2]) == 4 * SHAPE[0] * SHAPE[1]
        for wrong in ("4", "99999999"):
            assert ask(server, path + wrong)[0] == ask(server, tile_path(content, channel=wrong))[0] == 404
        for wrong in WRONG:
            quoted = wrong.encode("latin-1", "replace").decode("latin-1")
            assert ask(server, path + quoted)[0] == ask(server, tile_path(content, channel=quoted))[0] == 400
        assert ask(server, f"{path}3&file=x")[0] == ask(server, f"/channel/0?version={content['version']}")[0] == 400
        assert ask(server, f"{path}3", X_Review_Token="wrong")[0] == 403
        # A channel that is written again is none of the page that was read before.
        save(tmp_path / "images" / "case_0_0003.nii.gz", channels_of(5)[3], TURNED)
        assert ask(server, f"{path}1")[0] == 409


def held(server, number):
    """Bytes that the server holds of a case."""
    return server._pixels._pixels[number].nbytes


def test_what_is_held_has_an_end_when_every_channel_is_asked_for_in_turn(tmp_path, monkeypatch):
    from fedannot.apps.audit import kept_pixels

    voxels = int(np.prod(SHAPE))
    # One channel of four bytes a voxel and the given annotation in the order of two files, but no second channel.
    most = (4 + 2) * voxels
    monkeypatch.setattr(kept_pixels, "_KEPT_BYTES", most)
    with serving(found_audit(tmp_path)) as server:
        contents = [json.loads(ask(server, f"/case/{number}")[2]) for number in range(2)]
        for number in (0, 1, 0):
            assert ask(server, mask_path(contents[number], case=number, axis=2, plane=2))[0] == 200
            for channel in (*range(4), 0, 2):
                # The first is read again from the file, as it was.
                body = ask(server, tile_path(contents[number], case=number, plane=2, channel=channel))[2]
                on_grid = (
                    channels_of(number)[channel] if channel < 3 else resampled_by_itk(channels_of(number)[3], TURNED)
                )
                np.testing.assert_allclose(
                    np.frombuffer(body, "<f4").reshape(SHAPE[1], SHAPE[0]), plane_as_shown(on_grid), atol=2e-3
                )
                kept = server._pixels._pixels
                assert (list(kept), sum(own.nbytes for own in kept.values())) == ([number], most)
                assert ask(server, f"/crop/{number}")[0] == 200
                assert sum(own.nbytes for own in kept.values()) <= most


def plane_as_shown(voxels):
    """The third axial plane, rows to the patient's back and columns to the left, by the affine's signs."""
    return voxels[:, ::-1, 2].T


@pytest.mark.parametrize("role", ["image", "channel", "label"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_regular_file_is_refused_by_name_and_not_opened(tmp_path, role, kind):
    found = found_audit(tmp_path, 1)
    file = tmp_path / {"label": "labels/case_0.nii.gz", "image": "images/case_0_0000.nii.gz"}.get(
        role, "images/case_0_0002.nii.gz"
    )
    with serving(found) as server:
        content = json.loads(ask(server, "/case/0")[2])
        file.unlink()
        if kind == "pipe":
            os.mkfifo(file)
        elif kind == "device":
            # It has no end.
            file.symlink_to("/dev/zero")
        else:
            file.mkdir()
        problem = json.loads(ask(server, "/case/0")[2])["problem"]
        assert problem == f"{file}: found a folder, pipe or device; expected a file of the site's datalist."
        for path in (
            tile_path(content, plane=2, channel=2),
            mask_path(content, plane=2),
            f"/channel/0?version={content['version']}&channel=2",
        ):
            status, _, body = ask(server, path)
            assert (status, json.loads(body)["problem"]) == (409, problem)
        assert json.loads(ask(server, "/crop/0")[2]) == {"crop": ""}
        if role == "label":
            # The way of an annotation that is not looked at by its version.
            with pytest.raises(DataError, match=r"no regular file|Is a directory"):
                server.reader.shown(server.cases[0])


# Of pixels of 0.8 × 1.1 mm, with a margin at both sides.
LEVELS = """
const [height, width] = arguments, canvas = document.getElementById("view-given");
const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height), levels = [];
for (let row = 0; row < height; row += 1) for (let column = 0; column < width; column += 1) {
  const side = canvas.height / height, across = (side * 0.8) / 1.1;
  const y = Math.floor((row + 0.5) * side), x = Math.floor(canvas.width / 2 + (column + 0.5 - width / 2) * across);
  levels.push(data[4 * (y * canvas.width + x)]);
}
return levels;
"""


def test_a_reader_chooses_a_channel_and_the_next_case_is_shown_in_it(tmp_path):
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.select import Select

    def levels(index, number):
        """By hand: the plane with most annotated, through the window of the darkest and brightest hundredth."""
        voxels = channels_of(index)[number]
        voxels = resampled_by_itk(voxels, TURNED) if number == 3 else voxels
        low, high = np.quantile(voxels, (0.01, 0.99))
        axial = channels_of_site(tmp_path).grid.from_file(voxels)[:, :, label_of(index).sum((0, 1)).argmax()]
        return 255 * ((axial.T - low) / (high - low)).clip(0, 1)

    def shows(index, number):
        expected = levels(index, number)
        found = np.reshape(browser.execute_script(LEVELS, *expected.shape), expected.shape)
        return abs(found - expected).max() < 3

    with chromium(tmp_path / "profile") as browser, serving(found_audit(tmp_path)) as server:
        open_page(browser, new_address(server))
        press(browser, "h")
        wait_for(lambda: shows(0, 0))
        choice = Select(browser.find_element("id", "channel"))
        assert [option.text for option in choice.options] == list(NAMES)
        choice.select_by_visible_text("FLAIR")
        wait_for(lambda: shows(0, 3))
        # Letters choose in a list that has the focus.
        press(browser, Keys.ESCAPE)
        press(browser, "n")
        wait_for(lambda: "case_1" in text_of(browser, "case-title") and shows(1, 3))
        assert accessibility_faults(browser) == []
        # However long a name is, the page is no wider than the window.
        assert browser.execute_script(
            'document.getElementById("channel").add(new Option("T1 ".repeat(200)));'
            "return document.documentElement.scrollWidth <= innerWidth"
        )
        # One that cannot be read is said, and the one before stays.
        (tmp_path / "images" / "case_1_0001.nii.gz").write_bytes(b"x")
        choice.select_by_visible_text("T1c")
        wait_for(lambda: "load the page again" in text_of(browser, "status"))
        assert Select(browser.find_element("id", "channel")).first_selected_option.text == "FLAIR"
