"""Pictures of a run, drawn from small hand-made summaries: files that can be read, of the size and colours expected."""

import json

import nibabel
import numpy as np
import plain_records
import pytest
import torch
from PIL import Image

from fedannot.apps.reports import pictures
from fedannot.apps.reports.case_drawing import FILL_OPACITY
from fedannot.apps.reports.charts import draw_comparison, draw_groups, draw_rounds, draw_weights
from fedannot.apps.reports.pictures import draw_cases, draw_run
from fedannot.custom.data.datalist import Case, write_datalist
from fedannot.custom.data.description import SliceDescription, VolumeDescription, write_site_description
from fedannot.custom.data.federation import FederationDescription, write_federation
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.methods.feda3i.records import EstimateRecord, WeightsRecord
from fedannot.custom.networks.building import build_network

DOTS_PER_INCH = 110
NETWORK = {"in_channels": 1, "num_classes": 1, "features": [2, 2, 4, 4, 4, 2], "upsample": "deconv"}
# Of annotations, which are also those of sites that draw larger; of those that draw smaller; predictions; clean
# contours; lesions left out. All can be known with red-green blindness.
RED, BLUE, CYAN, LIME = (213, 94, 0), (0, 114, 178), (86, 180, 233), (240, 228, 66)
MAGENTA = (204, 121, 167)


def record(number, dice, stage="warm-up"):
    return {"round": number, "stage": stage, "dice": dice, "hd95": 2.0, "seconds": 1.0}


SITES = {site: {"num_samples": 5} for site in ("site-1", "site-2")}


ROUNDS = [record(1, 0.5), record(2, 0.625), record(3, 0.75, "quality-aware"), record(4, 0.8, "quality-aware")]
WEIGHTS = {
    "sites": ["site-1", "site-10", "site-2"],
    "blocks": ["conv_0", "down_1", "upcat_1", "final_conv"],
    "values": [[0.3, 0.2, 0.1, 0.0], [0.4, 0.4, 0.5, 0.5], [0.3, 0.4, 0.4, 0.5]],
}
ESTIMATE = {
    "sites": {
        "site-1": {"inner": [1.0], "outer": [0.25], "group": "larger", "strength": 0.75},
        "site-2": {"inner": [0.25], "outer": [1.0], "group": "smaller", "strength": 0.75},
    },
    "reason": "",
    "p_value": 0.005,
}
RUN = {
    "task": "segmentation",
    "method": "feda3i",
    "seed": 3,
    "rounds": ROUNDS,
    "last_round": {"dice": 0.7, "hd95": None},
    "estimate": ESTIMATE,
    "weights": WEIGHTS,
    "settings": {"method": "feda3i", "network": NETWORK},
}
SUMMARY = plain_records.summary(**RUN)
OTHER = plain_records.summary(rounds=[record(number, 0.4 + 0.05 * number) for number in range(1, 5)])


def read_picture(file):
    """The pixels ``(rows, columns, 3)`` of a PNG that is neither damaged nor blank."""
    with Image.open(file) as picture:
        picture.verify()
    with Image.open(file) as picture:
        assert picture.format == "PNG"
        pixels = np.asarray(picture.convert("RGB"))
    assert pixels.std() > 1.0
    return pixels


def inches(pixels):
    return pixels.shape[1] / DOTS_PER_INCH, pixels.shape[0] / DOTS_PER_INCH


def count(pixels, colour):
    """Number of pixels of exactly this colour."""
    return int((pixels == colour).all(axis=-1).sum())


def test_dice_over_rounds(tmp_path):
    alone = draw_rounds(SUMMARY, tmp_path / "alone.png")
    assert alone == tmp_path / "alone.png"
    both = read_picture(draw_rounds(SUMMARY, tmp_path / "both.png", OTHER))
    assert inches(both) == (7, 4)
    assert count(read_picture(alone), RED) == 0 < count(both, RED)


def test_rounds_without_a_score_are_left_out_of_the_curve(tmp_path):
    scored = RUN | {"rounds": [record(1, 0.5), record(2, 0.6), record(3, None), record(4, 0.7)]}
    read_picture(draw_rounds(plain_records.summary(**scored), tmp_path / "dice.png", OTHER))


def test_matrix_of_weights_grows_with_sites_and_blocks(tmp_path):
    pixels = read_picture(draw_weights(WeightsRecord(**WEIGHTS), tmp_path / "weights.png"))
    assert inches(pixels) == pytest.approx((1.5 + 0.7 * 4, 1.5 + 0.4 * 3), abs=0.02)
    more = WeightsRecord(
        sites=[f"site-{number}" for number in range(1, 13)],
        blocks=list("abcdefghij"),
        values=np.full((12, 10), 1 / 12).tolist(),
    )
    assert inches(read_picture(draw_weights(more, tmp_path / "more.png"))) == pytest.approx((8.5, 6.3), abs=0.02)


def test_rows_of_the_matrix_are_in_natural_order_of_the_sites(tmp_path):
    sorted_weights = {
        "sites": ["site-1", "site-2", "site-10"],
        "blocks": WEIGHTS["blocks"],
        "values": [WEIGHTS["values"][index] for index in (0, 2, 1)],
    }
    as_sent, in_order = (
        read_picture(draw_weights(WeightsRecord(**weights), tmp_path / name))
        for weights, name in ((WEIGHTS, "a.png"), (sorted_weights, "b.png"))
    )
    np.testing.assert_array_equal(as_sent, in_order)


@pytest.mark.parametrize(
    ("groups", "colours"), [(("larger", "smaller"), {RED, BLUE}), (("larger", "larger"), {RED}), ((None, None), set())]
)
def test_groups_have_their_colours(tmp_path, groups, colours):
    sites = {
        site: predicted | {"group": group}
        for (site, predicted), group in zip(ESTIMATE["sites"].items(), groups, strict=True)
    }
    pixels = read_picture(
        draw_groups(EstimateRecord(**ESTIMATE | {"sites": sites, "p_value": None}), tmp_path / "groups.png")
    )
    assert inches(pixels) == pytest.approx((7, 1.9 + 3 * 0.26), abs=0.02)
    assert {colour for colour in (RED, BLUE) if count(pixels, colour) > 20} == colours


def test_groups_without_any_site_are_an_empty_plot(tmp_path):
    estimate = {"sites": {}, "reason": "0 sites reported an estimate, at least 3 are needed.", "p_value": None}
    read_picture(draw_groups(EstimateRecord(**estimate), tmp_path / "groups.png"))


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures") / "federation"
    write_phantom_federation(folder, LesionImages(), num_sites=2, images_per_site=2, test_images=2)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "model.pt"
    torch.save({"model": build_network(**NETWORK, seed=1).state_dict()}, file)
    return file


def draw_with_prediction(monkeypatch, masks, *arguments, **options):
    """Draw cases with given masks in place of the network's predictions."""
    monkeypatch.setattr(Inference, "predictions", lambda _, network, cases: masks[: len(cases), None])
    return read_picture(draw_cases(*arguments, **options))


def test_cases_have_a_row_per_site_and_one_for_the_test_set(federation, model, tmp_path):
    pixels = read_picture(draw_cases(SUMMARY, model, federation, tmp_path / "cases.png"))
    assert inches(pixels) == (6, 9)
    # Every row shows images: there are greys between the white of the paper and the black of the letters.
    gray = (pixels.max(axis=-1) - pixels.min(axis=-1) == 0) & (pixels[..., 0] > 40) & (pixels[..., 0] < 215)
    for row in np.array_split(gray, 3):
        assert row.mean() > 0.1


def test_cases_without_a_test_set_are_those_of_at_most_four_sites(model, tmp_path, monkeypatch):
    folder = tmp_path / "federation"
    write_phantom_federation(folder, LesionImages(), num_sites=9, images_per_site=1, test_images=1)
    (folder / "test" / "data.yaml").unlink()
    loaded, load = [], pictures.load_site_data

    def noted(folder, store, **options):
        loaded.append(options["site"])
        return load(folder, store, **options)

    monkeypatch.setattr(pictures, "load_site_data", noted)
    pixels = read_picture(draw_cases(SUMMARY, model, folder, tmp_path / "cases.png"))
    assert inches(pixels) == (6, 12)
    assert loaded == ["site-1", "site-3", "site-5", "site-7"]


def test_contours_of_annotation_clean_label_and_prediction_are_drawn(federation, model, tmp_path, monkeypatch):
    predicted = torch.zeros(2, 64, 64, dtype=torch.uint8)
    without = draw_with_prediction(monkeypatch, predicted, SUMMARY, model, federation, tmp_path / "a.png")
    predicted[:, 4:60, 4:60] = 1
    result = draw_with_prediction(monkeypatch, predicted, SUMMARY, model, federation, tmp_path / "b.png")
    # Six squares of 56 of 64 pixels; of each side a good part has the colour unblended.
    assert count(result, CYAN) > count(without, CYAN) + 6 * 100
    # Annotations of the sites are the clean ones here; both contours are seen, and nothing is left out.
    assert count(result[:-60], LIME) > 200
    assert count(result[:-60], RED) > 50
    assert count(result, MAGENTA) == 0


def test_a_test_case_has_a_clean_contour_and_no_annotation(model, tmp_path, monkeypatch):
    folder = tmp_path / "federation"
    write_phantom_federation(folder, LesionImages(), num_sites=1, images_per_site=1, test_images=2)
    # Without clean labels the site's own contour is the red one of the annotation.
    datalist = folder / "site-1" / "datalist.json"
    content = json.loads(datalist.read_text(encoding="utf-8"))
    del content["training"][0]["clean_label"]
    datalist.write_text(json.dumps(content))
    nothing = torch.zeros(2, 64, 64, dtype=torch.uint8)
    pixels = draw_with_prediction(monkeypatch, nothing, SUMMARY, model, folder, tmp_path / "cases.png")
    assert inches(pixels) == (6, 6)
    # The legend with all three colours stands below the rows.
    site, test = pixels[: 2 * len(pixels) // 5], pixels[len(pixels) // 2 : -60]
    assert count(site, RED) > 20
    assert count(site, LIME) == 0
    assert count(test, LIME) > 20
    assert count(test, RED) == 0


TWO_CLASSES = {"classes": ("organ", "lesion"), "labels": {0: 0, 1: 1, 2: 2}}


def write_volumes(folder, description, mask):
    """A federation of one site with three volumes of one mask; the first two are of one patient."""
    site = folder / "site-1"
    site.mkdir(parents=True)
    image = np.random.default_rng(0).normal(size=mask.shape).astype(np.float32)
    cases = []
    for number, patient in enumerate(("a", "a", "b")):
        case = Case(site / f"image_{number}.nii", site / f"label_{number}.nii", group=patient)
        for file, voxels in ((case.image, image), (case.label, mask.astype(np.uint8))):
            nibabel.save(nibabel.Nifti1Image(voxels, np.diag([1.0, 2.0, 4.0, 1.0])), file)
        cases.append(case)
    write_datalist(site / description.datalist, {"training": cases})
    write_site_description(site, description)
    write_federation(folder, FederationDescription(name="volumes", sites=("site-1",)))
    return folder


def draw_volumes(tmp_path, monkeypatch, name, mask, whole):
    """The picture, and the cases that the network was asked about."""
    description = VolumeDescription(**TWO_CLASSES) if whole else SliceDescription(size=(40, 20), **TWO_CLASSES)
    network = NETWORK | {"num_classes": 2, "spatial_dims": 3 if whole else 2}
    settings = {"method": "feda3i", "network": network} | ({"training": {"patch": [32, 32, 32]}} if whole else {})
    model = tmp_path / f"{name}.pt"
    torch.save({"model": build_network(**network).state_dict()}, model)
    asked = []

    def predict(self, network, cases):
        asked.extend(cases)
        return [torch.zeros_like(case.label) for case in cases]

    monkeypatch.setattr(Inference, "predictions", predict)
    folder = write_volumes(tmp_path / f"federation-{name}", description, mask)
    file = draw_cases(
        plain_records.summary(**RUN | {"settings": settings}),
        model,
        folder,
        tmp_path / f"{name}.png",
    )
    return read_picture(file), asked


def red_lines(pixels):
    """Pixels in the colour of annotations, without the legend below the row."""
    return count(pixels[: int(0.75 * len(pixels))], RED)


@pytest.mark.parametrize("whole", [True, False])
def test_the_largest_annotation_of_a_volume_is_shown(tmp_path, monkeypatch, whole):
    mask = np.zeros((40, 20, 6))
    mask[10:30, 5:15, 4] = 1
    only, _ = draw_volumes(tmp_path, monkeypatch, "only", mask, whole)
    assert red_lines(only) > 100
    mask[18:20, 8:10, 1] = 1
    with_smaller, asked = draw_volumes(tmp_path, monkeypatch, "smaller", mask, whole)
    np.testing.assert_array_equal(with_smaller, only)
    if not whole:
        assert [int(case.label.sum()) for case in asked] == [200, 200]


def test_cases_are_of_different_patients_where_there_are_several(tmp_path, monkeypatch):
    mask = np.zeros((40, 20, 6))
    mask[10:30, 5:15, 4] = 1
    _, asked = draw_volumes(tmp_path, monkeypatch, "patients", mask, whole=False)
    assert [case.unit for case in asked] == ["a", "b"]


def test_classes_differ_in_the_style_of_their_lines(tmp_path, monkeypatch):
    mask = np.zeros((40, 20, 6))
    mask[10:30, 5:15, 4] = 1
    first, second = (
        red_lines(draw_volumes(tmp_path, monkeypatch, name, label * mask, whole=False)[0])
        for name, label in (("first", 1), ("second", 2))
    )
    # A dashed line is red over about two thirds of its length.
    assert 0.5 * first < second < 0.8 * first


def test_a_class_inside_another_keeps_its_own_style_of_line(tmp_path, monkeypatch):
    mask = np.zeros((40, 20, 6))
    mask[10:30, 5:15, 4] = 1
    alone = red_lines(draw_volumes(tmp_path, monkeypatch, "alone", mask, whole=False)[0])
    hole, filled = mask.copy(), mask.copy()
    hole[15:25, 8:12, 4] = 0
    filled[15:25, 8:12, 4] = 2
    with_hole, with_class = (
        red_lines(draw_volumes(tmp_path, monkeypatch, name, voxels, whole=False)[0]) - alone
        for name, voxels in (("hole", hole), ("class", filled))
    )
    assert 0.4 * with_hole < with_class < 0.85 * with_hole


def test_volumes_stand_upright_with_pixels_of_their_true_shape(tmp_path, monkeypatch):
    """Voxels are 1 by 2 mm: 40 by 20 voxels are a square, and the first axis runs to the right."""
    mask = np.zeros((40, 20, 6))
    mask[24:36, 2:4, 4] = 1  # to the right, at the lower end; 12 by 4 mm
    pixels, _ = draw_volumes(tmp_path, monkeypatch, "upright", mask, whole=True)
    left_half = pixels[: int(0.75 * len(pixels)), : pixels.shape[1] // 2]
    rows, columns = np.nonzero((left_half == RED).all(axis=-1))
    gray = (left_half.max(axis=-1) == left_half.min(axis=-1)) & (left_half[..., 0] < 215)
    middle_row, middle_column = (np.mean([places.min(), places.max()]) for places in np.nonzero(gray))
    assert rows.mean() > middle_row
    assert columns.mean() > middle_column
    assert np.ptp(columns) == pytest.approx(3 * np.ptp(rows), rel=0.25)


def masks_of(*squares):
    """A mask ``(40, 20, 6)`` with squares of 4 by 4 voxels, given as row, column and slice."""
    mask = np.zeros((40, 20, 6), dtype=np.uint8)
    for row, column, plane in squares:
        mask[row : row + 4, column : column + 4, plane] = 1
    return mask


ANNOTATED, LEFT_OUT, BESIDE = (4, 4, 1), (30, 12, 4), (30, 12, 1)


def draw_incomplete(tmp_path, monkeypatch, name, given, clean, *, whole=False):
    """The picture of cases whose given annotations are those squares, and the clean ones these."""
    folder = tmp_path / f"federation-{name}"
    description = VolumeDescription if whole else SliceDescription
    options = {} if whole else {"size": (40, 20)}
    write_volumes(folder, description(**options, classes=("lesion",), labels={0: 0, 1: 1}), masks_of())
    datalist = folder / "site-1" / "datalist.json"
    content = json.loads(datalist.read_text(encoding="utf-8"))
    for number, case in enumerate(content["training"]):
        case["group"] = f"patient-{number}"
        case["clean_label"] = f"clean_{number}.nii"
        pairs = ((case["label"], given[number]), (case["clean_label"], clean[number]))
        for file, squares in pairs:
            nibabel.save(nibabel.Nifti1Image(masks_of(*squares), np.diag([1.0, 2.0, 4.0, 1.0])), datalist.parent / file)
    datalist.write_text(json.dumps(content))
    network = NETWORK | {"spatial_dims": 3 if whole else 2}
    settings = {"method": "fedia", "network": network} | ({"training": {"patch": [32, 32, 32]}} if whole else {})
    model = tmp_path / f"{name}.pt"
    torch.save({"model": build_network(**network).state_dict()}, model)
    monkeypatch.setattr(Inference, "predictions", lambda _, network, cases: [torch.zeros_like(c.label) for c in cases])
    file = draw_cases(
        plain_records.summary(**RUN | {"settings": settings}),
        model,
        folder,
        tmp_path / f"{name}.png",
    )
    return read_picture(file)


def panels(pixels):
    """The two cases without the legend below them."""
    shown = pixels[: int(0.75 * len(pixels))]
    return shown[:, : shown.shape[1] // 2], shown[:, shown.shape[1] // 2 :]


@pytest.mark.parametrize("whole", [True, False])
def test_left_out_lesions_are_shaded_and_outlined_in_a_colour_of_their_own(tmp_path, monkeypatch, whole):
    complete = [(ANNOTATED, BESIDE)] * 3
    pixels = draw_incomplete(tmp_path, monkeypatch, "left out", [(ANNOTATED,)] * 3, complete, whole=whole)
    for panel in panels(pixels):
        assert count(panel, MAGENTA) > 50
        # The lesion lies to the right of the annotated one, and the annotation is seen.
        columns = [np.nonzero((panel == colour).all(axis=-1))[1].mean() for colour in (MAGENTA, RED)]
        assert columns[0] > columns[1] + 100
        # The shade mixes the colour with the grey of the image, whose channels are equal.
        red, green, blue = (panel[..., channel].astype(int) for channel in range(3))
        differences = [FILL_OPACITY * (MAGENTA[0] - MAGENTA[channel]) for channel in (1, 2)]
        shade = (abs(red - green - differences[0]) < 3) & (abs(red - blue - differences[1]) < 3)
        assert shade.sum() > 2 * count(panel, MAGENTA)
    same = draw_incomplete(tmp_path, monkeypatch, "complete", complete, complete, whole=whole)
    assert count(same, MAGENTA) == 0


@pytest.mark.parametrize("whole", [True, False])
def test_slices_and_cases_in_which_something_was_left_out_are_chosen(tmp_path, monkeypatch, whole):
    """The first case is complete; in the others what was left out lies in another slice than the annotation."""
    given, clean = (
        [(ANNOTATED, BESIDE), (ANNOTATED,), (ANNOTATED,)],
        [(ANNOTATED, BESIDE), *[(ANNOTATED, LEFT_OUT)] * 2],
    )
    pixels = draw_incomplete(tmp_path, monkeypatch, "chosen", given, clean, whole=whole)
    for panel in panels(pixels):
        assert count(panel, MAGENTA) > 50
    given, clean = [(ANNOTATED, BESIDE)] * 2 + [(ANNOTATED,)], [(ANNOTATED, BESIDE)] * 2 + [(ANNOTATED, LEFT_OUT)]
    left, right = panels(draw_incomplete(tmp_path, monkeypatch, "one", given, clean, whole=whole))
    assert count(left, MAGENTA) > 50
    assert count(right, MAGENTA) == 0
    assert count(right, RED) > 50


def test_a_lesion_drawn_too_small_is_not_left_out(tmp_path, monkeypatch):
    """The clean lesion is two squares side by side, of which the site drew one."""
    larger = (ANNOTATED, (8, 4, 1))
    pixels = draw_incomplete(tmp_path, monkeypatch, "too small", [(ANNOTATED,)] * 3, [larger] * 3)
    assert count(pixels, MAGENTA) == 0
    left, _ = panels(pixels)
    assert count(left, LIME) > 50
    assert count(left, RED) > 50


def make_output(out, model, **changes):
    out.mkdir()
    (out / "summary.json").write_text(json.dumps(plain_records.summary_values(**RUN | changes)))
    (out / "model.pt").write_bytes(model.read_bytes())
    return out


def test_run_gets_the_pictures_that_its_summary_has_something_for(federation, model, tmp_path):
    unscored = [record(number, None) for number in (1, 2)]
    no_estimate = {"estimate": None, "weights": None}
    weighed = [record(1, 0.5) | {"weights": {"site-1": 0.5, "site-2": 0.5}, "effective_sites": 2.0}]
    for name, data, changes, expected in (
        ("everything", federation, {}, ["dice.png", "weights.png", "groups.png", "cases.png"]),
        ("averaging", None, {"estimate": None, "weights": None}, ["dice.png"]),
        ("no groups", None, {"weights": None}, ["dice.png", "groups.png"]),
        ("weighed", None, no_estimate | {"rounds": weighed, "sites": SITES}, ["dice.png", "weights_by_round.png"]),
        ("nothing", None, {"estimate": None, "weights": None, "rounds": unscored}, []),
    ):
        out = make_output(tmp_path / name, model, **changes)
        files = draw_run(out, data, against=OTHER)
        assert files == [out / "pictures" / file for file in expected]
        assert sorted(file.name for file in (out / "pictures").iterdir()) == sorted(expected)
        for file in files:
            read_picture(file)


def test_pictures_are_drawn_again_over_earlier_ones(model, tmp_path):
    out = make_output(tmp_path / "out", model, estimate=None, weights=None)
    first = draw_run(out, None)[0].read_bytes()
    (out / "pictures" / "dice.png").write_bytes(b"damaged")
    assert draw_run(out, None)[0].read_bytes() == first


def test_comparison_of_two_jobs(tmp_path):
    runs = [
        {
            "arm": job,
            "task": "segmentation",
            "seed": seed,
            "rounds": [{"dice": level + 0.02 * seed + 0.01 * number} for number in range(1, 4)],
            "last_rounds": {"dice": level + 0.02 * seed, "hd95": None},
        }
        for job, level in (("fedavg", 0.6), ("fedaaai", 0.7))
        for seed in (0, 1)
    ]
    pixels = read_picture(draw_comparison(plain_records.comparison(runs, seeds=(0, 1)), tmp_path / "comparison.png"))
    assert inches(pixels) == (10, 4)
    # One colour for each job's curves, the second dashed.
    assert count(pixels, BLUE) > 1.2 * count(pixels, RED) > 100


def test_an_arm_without_scores_is_named_and_others_are_drawn(tmp_path):
    """Among them one whose rounds were scored now and then."""

    def run(arm, dice):
        rounds = [{"dice": score} for score in dice]
        return {"arm": arm, "rounds": rounds, "last_rounds": {"dice": dice[-1], "hd95": None}}

    runs = [run("fedavg", (0.5, None, 0.6)), run("alone", (None, None, None))]
    both = read_picture(draw_comparison(plain_records.comparison(runs), tmp_path / "both.png"))
    one = read_picture(draw_comparison(plain_records.comparison(runs[:1]), tmp_path / "one.png"))
    assert count(both, BLUE) > 100
    # In the legend alone.
    assert 0 < count(both, RED) < 200
    assert count(one, RED) == 0


@pytest.mark.parametrize("number", [8, 50])
def test_a_site_has_a_row_of_its_own_however_many_there_are(tmp_path, number):
    """So that no name can lie on another one: the height grows by a line of text for each."""
    sites = {f"site-{n}": ESTIMATE["sites"]["site-1"] for n in range(number)}
    pixels = read_picture(draw_groups(EstimateRecord(**ESTIMATE | {"sites": sites}), tmp_path / "groups.png"))
    assert inches(pixels)[1] == pytest.approx(1.9 + 0.26 * number, abs=0.02)
    # A name is left of the axes, and between two of them nothing is.
    names = (pixels[:, :50] < 128).all(axis=-1).any(axis=1)
    assert int(np.diff(names.astype(int)).clip(0).sum()) == number
