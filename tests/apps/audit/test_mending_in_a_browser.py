"""Masks that are drawn in Chromium: the file on the disk has the pixels that the canvas has shown."""

import json

import nibabel
import numpy as np
import pytest
import SimpleITK
from PIL import Image
from scipy.ndimage import maximum_filter, minimum_filter
from support.audits import audited_images, audited_slices, audited_volumes
from support.chromium import accessibility_faults, chromium
from support.served_reviews import new_address, serving
from test_pages_in_a_browser import open_page, text_of, wait_for

from fedannot.apps.audit.applying import apply_decisions
from fedannot.apps.audit.case_files import CaseReader
from fedannot.apps.audit.site_page import write_site_page
from fedannot.custom.audit.decisions import read_decisions
from fedannot.custom.audit.drawn_masks import DRAWN_FOLDER, read_drawn
from fedannot.custom.data.masks import read_classes

CASES = 20

# The pixels of the file that the drawn mask covers on the canvas: where it is another one without it, at their middles.
SHOWN = """
const [height, width] = arguments, canvas = document.getElementById("view-given");
const box = document.getElementById("layer-drawn");
const read = (isOn) => {
  box.checked = isOn;
  box.dispatchEvent(new Event("change"));
  return canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
};
document.getElementById("zoom-fit").click();
const without = read(false), shown = read(true), pixels = [];
for (let row = 0; row < height; row += 1) for (let column = 0; column < width; column += 1) {
  const y = Math.floor(((row + 0.5) * canvas.height) / height), x = Math.floor(((column + 0.5) * canvas.width) / width);
  const at = 4 * (y * canvas.width + x);
  pixels.push([0, 1, 2].some((part) => shown[at + part] !== without[at + part]) ? 1 : 0);
}
return pixels.join("");
"""
FILLED = """
for (const name of ["given", "predicted", "suggested"]) document.getElementById(`layer-${name}`).checked = false;
document.getElementById("fill").checked = true;
"""
MOVE = """
const slider = document.getElementById("mend-offset");
slider.value = arguments[0];
slider.dispatchEvent(new Event("input"));
"""


def shown_mask(browser, shape):
    """The drawn mask as the canvas has it, ``(H, W)``."""
    text = browser.execute_script(SHOWN, *shape)
    return np.array([int(letter) for letter in text], np.uint8).reshape(shape)


def press(browser, *keys):
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(browser, duration=0).send_keys(*keys).perform()


def drag(browser, *ways):
    """A pointer that is pressed in the image's middle, and goes some ways from there."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By

    chain = (
        ActionChains(browser, duration=0).move_to_element(browser.find_element(By.ID, "view-given")).click_and_hold()
    )
    for right, down in ways:
        chain = chain.move_by_offset(right, down)
    chain.release().perform()


def begin(browser):
    """Start to draw on the shown case, which is read first."""
    wait_for(lambda: is_read(browser))
    browser.execute_script("document.getElementById('view-given').scrollIntoView()")
    press(browser, "e")
    wait_for(lambda: not is_hidden(browser, "mend-tools"))


def is_read(browser):
    return browser.execute_script("return document.getElementById('case').ariaBusy") == "false"


def is_hidden(browser, name):
    return browser.execute_script("return document.getElementById(arguments[0]).hidden", name)


def is_disabled(browser, name):
    return browser.execute_script("return document.getElementById(arguments[0]).disabled", name)


def move_contours(browser):
    browser.execute_script(MOVE, 2.5)
    wait_for(lambda: not is_disabled(browser, "mend-store"))


UNDO = "document.getElementById('mend-undo').click();"


def draw_with_brush_and_undo(browser):
    move_contours(browser)
    browser.execute_script(UNDO)
    assert is_disabled(browser, "mend-store")
    assert not is_disabled(browser, "mend-redo")
    press(browser, "bb+")
    drag(browser, (190, -190), (-380, 0), (0, 380))
    drag(browser, (190, -190), (0, 380))
    # An offset that is only shown is a step of its own: the first stroke stays.
    browser.execute_script(MOVE + UNDO * 2, 2.5)
    assert not is_disabled(browser, "mend-redo")


def draw_with_lasso(browser):
    press(browser, "o")
    drag(browser, (190, -190), (-380, 0), (0, 380))


def erase_zoomed_in(browser):
    press(browser, "r", "+")
    drag(browser, (-190, 0), (0, 150), (380, 0), (0, -300), (-380, 0))


DRAWN = {
    "brush": draw_with_brush_and_undo,
    "offset": move_contours,
    "lasso": draw_with_lasso,
    "eraser": erase_zoomed_in,
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """One browser for all, which takes seconds to start."""
    with chromium(tmp_path_factory.mktemp("browser") / "profile") as started:
        yield started


def logged(browser):
    """What the browser complains of, but for the canvas being read here, and for refused decisions."""
    messages = [entry["message"] for entry in browser.get_log("browser")]
    return [message for message in messages if "readback" not in message and "409" not in message]


def store(browser):
    press(browser, "s")
    wait_for(lambda: text_of(browser, "status") == f"Drawn: {text_of(browser, 'case-title')}, stored.")


def test_twenty_cases_are_drawn_on_and_the_disk_has_what_the_page_showed(browser, tmp_path):
    result = audited_images(tmp_path / "images", CASES)
    reader, shown = CaseReader(result), {}
    with serving(result) as server:
        open_page(browser, new_address(server))
        browser.execute_script(FILLED)
        for number, case in enumerate(server.cases):
            tool = list(DRAWN)[number % len(DRAWN)]
            wait_for(lambda name=case.image: text_of(browser, "case-title") == name.rpartition("/")[2])
            begin(browser)
            DRAWN[tool](browser)
            shown[case.label] = shown_mask(browser, (64, 64)), tool
            store(browser)
            press(browser, "n")
        assert text_of(browser, "progress") == f"{CASES} of {CASES} findings decided"
        press(browser, "u")
        wait_for(lambda: text_of(browser, "status").startswith("Undone: "))
        assert is_hidden(browser, "drawn-field")
        assert logged(browser) == []
    decisions = read_decisions(result.folder, result.site)
    assert [decision.choice for decision in decisions.decisions] == ["edit"] * CASES + ["undo"]
    applied = apply_decisions(reader, decisions, result.folder / "new").record.cases
    assert len(applied) == CASES - 1
    for case in applied:
        seen, tool = shown[case.label]
        given = read_classes(reader.data / case.label, reader.description).classes
        np.testing.assert_array_equal(np.asarray(Image.open(result.folder / "new" / case.mask.file)) == 255, seen == 1)
        assert np.count_nonzero(seen != given) == case.review.changed > 0
        assert read_drawn(result.folder, case.review.decisions[0].drawn_mask).tools == (tool,)


def test_a_volume_is_drawn_on_by_keys_alone_and_lies_where_it_was_shown(browser, tmp_path):
    from selenium.webdriver.common.keys import Keys

    result = audited_volumes(tmp_path / "volumes", 1)
    with serving(result) as server:
        open_page(browser, new_address(server))
        browser.execute_script(FILLED)
        begin(browser)
        browser.execute_script("document.getElementById('mend-cursor').focus()")
        press(browser, Keys.SHIFT, Keys.ARROW_UP, Keys.ARROW_LEFT, Keys.SHIFT, Keys.ARROW_LEFT, " ")
        wait_for(lambda: not is_disabled(browser, "mend-undo"))
        plane = int(text_of(browser, "slice-number").split()[0]) - 1
        shape = tuple(server._mending.annotation(server.cases[0], "")[name] for name in ("height", "width"))
        seen = shown_mask(browser, shape)
        assert accessibility_faults(browser) == []
        store(browser)
        assert logged(browser) == []
    (folder,) = (result.folder / DRAWN_FOLDER).iterdir()
    given = server.reader.files(server.cases[0]).label
    ours, theirs = (SimpleITK.ReadImage(str(file)) for file in (folder / "mask.nii.gz", given))
    assert (ours.GetOrigin(), ours.GetSpacing(), ours.GetDirection()) == (
        theirs.GetOrigin(),
        theirs.GetSpacing(),
        theirs.GetDirection(),
    )
    # The phantom's axes run to the right, the front and the top; a page shows the right on its left, the front on top.
    np.testing.assert_array_equal(SimpleITK.GetArrayFromImage(ours)[plane, ::-1, ::-1], seen)
    voxels, before = (np.asarray(nibabel.load(file).dataobj) for file in (folder / "mask.nii.gz", given))
    assert np.count_nonzero((voxels != before)[..., plane]) == np.count_nonzero(voxels != before) > 0


def test_a_contradiction_is_asked_about_and_a_drawing_waits_for_its_case(browser, tmp_path):
    result = audited_images(tmp_path / "images", 2)
    with serving(result) as server:
        open_page(browser, new_address(server))
        press(browser, "a")
        wait_for(lambda: text_of(browser, "status").startswith("Accepted: "))
        press(browser, "p")
        first = server.cases[0].image.rpartition("/")[2]
        wait_for(lambda: text_of(browser, "case-title") == first)
        wait_for(lambda: not is_hidden(browser, "mending"))
        begin(browser)
        draw_with_lasso(browser)
        press(browser, "n")
        wait_for(lambda: "is not stored yet" in text_of(browser, "status"))
        press(browser, "p")
        wait_for(lambda: text_of(browser, "mend-note") == "This drawing is not stored yet.")
        begin(browser)
        answers = {"leave": ("Nothing was stored", ["accept"]), "agree": ("Drawn: ", ["accept", "edit"])}
        for answer, (said, stored) in answers.items():
            press(browser, "s")
            wait_for(lambda: browser.execute_script("return document.getElementById('question').open"))
            assert "“Drawn” contradicts" in text_of(browser, "question-text")
            browser.execute_script("document.getElementById(arguments[0]).click()", f"question-{answer}")
            wait_for(lambda said=said: text_of(browser, "status").startswith(said))
            log = read_decisions(result.folder, result.site).decisions
            assert [decision.choice for decision in log] == stored
        assert logged(browser) == []


def test_decisions_are_undone_one_after_the_other_after_a_reload(browser, tmp_path):
    """Two of one finding within a second: the page that is opened again knows both, and their order."""
    result = audited_images(tmp_path / "images", 2)
    with serving(result) as server:
        open_page(browser, new_address(server))
        first = server.cases[0].image.rpartition("/")[2]
        for key, said in (("a", "Accepted: "), ("k", "Kept: ")):
            press(browser, key)
            wait_for(lambda said=said: text_of(browser, "status").startswith(said))
            press(browser, "p")
            wait_for(lambda: text_of(browser, "case-title") == first)
        open_page(browser, new_address(server))
        for said in ("accepted as before.", "open again."):
            browser.execute_script("document.getElementById('undo').click()")
            wait_for(lambda said=said: text_of(browser, "status") == f"Undone: {first}, {said}")
        assert browser.execute_script("return document.getElementById('undo').disabled")
        assert read_decisions(result.folder, result.site).counting == {}
        assert logged(browser) == []


def test_a_written_page_asks_about_a_contradiction(browser, tmp_path, monkeypatch):
    result = audited_slices(tmp_path / "slices", 2)
    case = result.audit.cases[0]
    first, second = (finding.id for finding in case.findings[:2])
    read = CaseReader.read

    def differing(reader, wanted):
        seen = read(reader, wanted)
        if wanted == case:
            seen.suggestions[second][seen.suggestions[first] != seen.given] = 2
        return seen

    monkeypatch.setattr(CaseReader, "read", differing)
    open_page(browser, write_site_page(result, tmp_path / "page.html", check_files=False).as_uri())
    browser.execute_script("document.getElementById('reviewer').value = 'Dr Bo'")
    press(browser, "a")
    wait_for(lambda: text_of(browser, "status").startswith("Accepted: "))
    for answer, progress in (("leave", "1 of"), ("agree", "1 of")):
        press(browser, "a")
        wait_for(lambda: browser.execute_script("return document.getElementById('question').open"))
        assert "“Accepted” contradicts" in text_of(browser, "question-text")
        browser.execute_script("document.getElementById(arguments[0]).click()", f"question-{answer}")
        said = {"leave": "Nothing was stored", "agree": "Accepted: "}[answer]
        wait_for(lambda said=said: text_of(browser, "status").startswith(said))
        assert text_of(browser, "progress").startswith(progress)
    progress_then = text_of(browser, "progress")
    assert ", 1 for later" in progress_then
    kept = json.loads(browser.execute_script("return Object.values(localStorage)[0]"))
    assert [(one["finding"], one["choice"]) for one in kept] == [
        (first, "accept"),
        (second, "accept"),
        (first, "later"),
    ]
    assert kept[1]["action"] == kept[2]["action"] != kept[0]["action"]
    assert logged(browser) == []
    # What else has come to lie there is left out: it would make the file that is downloaded useless.
    hostile = [None, 7, "a", kept[1] | {"finding": "unknown"}, kept[1] | {"action": "x"}, kept[1] | {"more": "a"}]
    hostile += [kept[1] | {"choice": "edit"}, kept[1] | {"reason": 5}, {"choice": "keep", "finding": first}]
    write = "const [name] = Object.keys(localStorage); localStorage.setItem(name, arguments[0]);"
    browser.execute_script(write, json.dumps([*hostile, *kept]))
    browser.refresh()
    wait_for(lambda: text_of(browser, "progress") == progress_then)
    for progress in ("1 of", "0 of"):
        browser.execute_script("document.getElementById('undo').click()")
        wait_for(lambda progress=progress: text_of(browser, "progress").startswith(progress))
        wait_for(lambda: text_of(browser, "status").endswith("open again."))
    assert not text_of(browser, "progress").endswith("for later")
    *before, last, latest = json.loads(browser.execute_script("return Object.values(localStorage)[0]"))
    assert before == kept
    assert [last["undoes"], latest["undoes"]] == [kept[1]["action"], kept[0]["action"]]
    assert logged(browser) == []


def test_single_objects_of_a_suggestion_are_taken(browser, tmp_path):
    result = audited_images(tmp_path / "images", 1)
    with serving(result) as server:
        open_page(browser, new_address(server))
        begin(browser)
        press(browser, "q")
        boxes = "return document.querySelectorAll('#mend-object-list input')"
        wait_for(lambda: browser.execute_script(boxes))
        count = len(browser.execute_script(boxes))
        browser.execute_script("document.querySelector('#mend-object-list input').click()")
        store(browser)
        content = server.suggestion(0, 0)
    (folder,) = (result.folder / DRAWN_FOLDER).iterdir()
    assert read_drawn(result.folder, folder.name).changed == content["objects"][0]["pixels"]
    assert len(content["objects"]) == count


def test_what_is_drawn_goes_out_of_sight_with_its_case_and_a_comment_keeps_the_mask(browser, tmp_path):
    result = audited_images(tmp_path / "images", 2)
    with serving(result) as server:
        open_page(browser, new_address(server))
        begin(browser)
        # A tool that has the focus leaves the keys as they are.
        browser.find_element("id", "tool-lasso").click()
        press(browser, "b")
        assert browser.execute_script("return document.getElementById('tool-brush').checked")
        drag(browser, (190, -190), (-380, 0))
        store(browser)
        browser.execute_script("document.getElementById('comment').value = 'rim'")
        browser.execute_script("document.getElementById('store-comment').click()")
        wait_for(lambda: len(read_decisions(result.folder, result.site).decisions) == 2)
        drawn, said = read_decisions(result.folder, result.site).decisions
        assert (said.choice, said.mask, said.reason) == ("edit", drawn.mask, "rim")
        press(browser, "h")
        assert not browser.execute_script("return document.getElementById('layer-drawn').checked")
        press(browser, "h")

        begin(browser)
        drag(browser, (-190, 190), (380, 0))
        search = browser.find_element("id", "search")
        search.send_keys("no such case")
        wait_for(lambda: text_of(browser, "case-title") == "No case has such a finding.")
        assert is_hidden(browser, "mending")
        assert "waits there" in text_of(browser, "status")
        browser.execute_script("document.activeElement.blur(); document.getElementById('all-cases').click()")
        wait_for(lambda: text_of(browser, "mend-note") == "This drawing is not stored yet.")
        press(browser, "n")
        second = server.cases[1].image.rpartition("/")[2]
        wait_for(lambda: text_of(browser, "case-title") == second and is_read(browser))
        assert not is_hidden(browser, "mending")
        assert is_hidden(browser, "drawn-field")
        assert logged(browser) == []


def painted(browser, *, is_whole=False):
    """What the canvas has, as one text; of the whole image drawn once more, or as strokes have left it."""
    return browser.execute_script(
        "if (arguments[0]) document.getElementById('opacity').dispatchEvent(new Event('input'));"
        "const canvas = document.getElementById('view-given');"
        "return canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.join()",
        is_whole,
    )


def is_finished(browser):
    """Whether annotations are drawn in the cells of the present zoom, and not as they were before."""
    return browser.execute_script("return document.getElementById('views').ariaBusy === 'false'")


def large_audit(folder):
    """An audit of one image of 1400 × 1400 pixels with 49 discs, and the mask of these."""
    result = audited_images(folder / "images", 1)
    (case,) = result.audit.cases
    rows, columns = np.indices((1400, 1400))
    mask = np.hypot(rows % 200 - 100, columns % 200 - 100) < 60
    for name, values in ((case.image, 90 + 80 * mask), (case.label, 255 * mask)):
        Image.fromarray(values.astype(np.uint8)).save(f"{result.audit.data}/{name}")
    return result, mask


# Time that runs so fast that no frame makes more than a part or two.
HURRY = """
const now = performance.now.bind(performance), asked = { count: 0 };
window.calm = () => { performance.now = now; };
performance.now = () => now() + 40 * (asked.count += 1);
"""
# The colours of the canvas at once after keys, before there is another frame.
PRESS_AND_COUNT = """
document.activeElement.blur();
for (const key of arguments[0]) document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const canvas = document.getElementById("view-given"), pen = canvas.getContext("2d");
const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
let count = 0;
for (let at = 0; at < data.length; at += 4) count += data[at] > data[at + 2] + 60;
return count;
"""


def test_a_zoom_shows_all_contours_at_once_and_those_of_its_own_cells_soon(browser, tmp_path):
    result, _ = large_audit(tmp_path)
    with serving(result) as server:
        open_page(browser, new_address(server))
        browser.execute_script("document.getElementById('fill').checked = true")
        press(browser, "0")
        wait_for(lambda: is_finished(browser))
        assert browser.execute_script(PRESS_AND_COUNT, "") > 10000
        browser.execute_script(HURRY)
        # From cells of two pixels to single ones, of which none is made yet: the picture before is stretched.
        at_once = browser.execute_script(PRESS_AND_COUNT, "++")
        coarse = painted(browser)
        assert not is_finished(browser)
        browser.execute_script("window.calm()")
        wait_for(lambda: is_finished(browser))
        assert painted(browser) != coarse
        assert painted(browser) == painted(browser, is_whole=True)
        finished = browser.execute_script(PRESS_AND_COUNT, "")
        assert at_once == pytest.approx(finished, rel=0.05)
        assert logged(browser) == []


def test_a_stroke_on_a_large_image_changes_what_the_whole_image_drawn_again_shows(browser, tmp_path):
    """Only the stroke's surroundings are drawn; of an image whose cells are squares of pixels, in parts."""
    from selenium.webdriver.common.action_chains import ActionChains

    result, mask = large_audit(tmp_path)
    rows, columns = np.indices(mask.shape)
    with serving(result) as server:
        open_page(browser, new_address(server))
        # Of contours a browser rounds edges by all that it draws at once.
        browser.execute_script(FILLED)
        begin(browser)
        press(browser, "0", "b", *"." * 15)
        wait_for(lambda: is_finished(browser))
        assert painted(browser) == painted(browser, is_whole=True)
        before = painted(browser)
        side, reach = (
            browser.execute_script(f"return Number(document.getElementById({name!r}).{value})")
            for name, value in (("view-given", "width"), ("mend-size", "value / 2"))
        )
        drag(browser, (60, 10), (-130, 40), (0, 90))
        wait_for(lambda: not is_disabled(browser, "mend-undo"))
        drawn = painted(browser)
        assert drawn != before
        assert painted(browser, is_whole=True) == drawn
        browser.execute_script("document.getElementById('mend-undo').click()")
        assert painted(browser) == before
        assert painted(browser, is_whole=True) == before
        browser.execute_script("document.getElementById('mend-redo').click()")
        assert painted(browser) == drawn
        # A stroke that is broken off leaves nothing.
        canvas = browser.find_element("id", "view-given")
        ActionChains(browser, duration=0).move_to_element(canvas).click_and_hold().move_by_offset(90, -120).perform()
        press(browser, "e")
        ActionChains(browser, duration=0).release().perform()
        wait_for(lambda: is_hidden(browser, "mend-tools"))
        assert painted(browser, is_whole=True) == drawn
        begin(browser)
        seen = shown_mask(browser, mask.shape)
        store(browser)
        assert logged(browser) == []
    (folder,) = (result.folder / DRAWN_FOLDER).iterdir()
    stored = np.asarray(Image.open(folder / "mask.png")) == 255
    # A pixel of the canvas is 3.4 of the file wide, a cell is two.
    assert seen[minimum_filter(stored, 11)].all()
    assert not seen[~maximum_filter(stored, 11)].any()
    # The pointer's way in pixels of the file; the page places a pointer on whole pixels of its own.
    way = 700 + np.array([(0, 0), (10, 60), (50, -70), (140, -70)]) * 1400 / side
    far = np.full(mask.shape, np.inf)
    for start, step in zip(way, np.diff(way, axis=0), strict=False):
        part = ((rows - start[0]) * step[0] + (columns - start[1]) * step[1]) / (step @ step)
        nearest = start[:, None, None] + step[:, None, None] * part.clip(0, 1)
        far = np.minimum(far, np.hypot(rows - nearest[0], columns - nearest[1]))
    assert stored[far < reach - 4].all()
    np.testing.assert_array_equal(stored[far > reach + 4], mask[far > reach + 4])


def touch(browser, kind, *points):
    places = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(points)]
    browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": places})


def pinch(browser, x, y):
    """Two fingers that go apart, the second of which comes down a little later."""
    touch(browser, "Start", (x, y))
    touch(browser, "Start", (x, y), (x + 40, y))
    for step in range(1, 6):
        touch(browser, "Move", (x - 8 * step, y), (x + 40 + 8 * step, y))
    touch(browser, "End")


def test_one_finger_draws_and_takes_objects_and_two_fingers_zoom_and_change_nothing(browser, tmp_path):
    with serving(audited_images(tmp_path / "images", 1)) as server:
        open_page(browser, new_address(server))
        browser.execute_script(FILLED)
        begin(browser)
        place = "const box = document.getElementById('view-given').getBoundingClientRect();"
        place += "return [box.x, box.y, box.width / 64, box.height / 64]"
        left, top, *size = browser.execute_script(place)
        # A pixel of an object of the suggestion is where its choice changes what is shown.
        before = shown_mask(browser, (64, 64))
        press(browser, "q")
        wait_for(lambda: browser.execute_script("return document.querySelector('#mend-object-list input')"))
        choose = "document.querySelector('#mend-object-list input').click()"
        browser.execute_script(choose)
        row, column = np.argwhere(shown_mask(browser, (64, 64)) != before)[0] + 0.5
        browser.execute_script(choose + "; document.getElementById('mend-undo').click();" * 2)
        assert is_disabled(browser, "mend-undo")
        x, y = left + column * size[0], top + row * size[1]
        image = "return document.getElementById('view-given').toDataURL()"
        for tool in ("b", "o", "q"):
            press(browser, "0", tool)
            shown = browser.execute_script(image)
            pinch(browser, x, y)
            wait_for(lambda: browser.execute_script(image) != shown)  # noqa: B023
            assert is_disabled(browser, "mend-undo"), tool
        for tool in ("r", "q"):
            press(browser, "0", tool)
            touch(browser, "Start", (x, y))
            touch(browser, "End")
            wait_for(lambda: not is_disabled(browser, "mend-undo"))
            assert shown_mask(browser, (64, 64))[int(row), int(column)] != before[int(row), int(column)]
            browser.execute_script("document.getElementById('mend-undo').click()")
        assert logged(browser) == []
