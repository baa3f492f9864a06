"""The report of a run: its figures, what it holds, and that nothing in it is taken for markup or fetched."""

from pathlib import Path

import plain_records
import pytest
from PIL import Image

from fedannot.apps.reports.captions import caption
from fedannot.apps.reports.run_page import answer, command_again, scores, write_run_page
from fedannot.apps.reports.settings_rows import flat_rows

ROUNDS = [{"round": number, "dice": dice, "hd95": 4.0} for number, dice in enumerate((0.1, 0.5, 0.6, 0.7, 0.8, 0.9), 1)]
RUN = {
    "method": "fedavg",
    "seed": 3,
    "rounds_finished": 6,
    "rounds": ROUNDS,
    "last_rounds": {"dice": 0.7, "hd95": 4.0},
    "last_round": {"dice": 0.9, "hd95": 4.0},
    "sites": {"site-10": {"num_samples": 7}, "site-2": {"num_samples": 5}, "<b>": {"num_samples": 1}},
    "settings": {"method": "fedavg", "rounds": 6, "training": {"loss": "ce"}},
    "versions": {"torch": "2.9.1"},
    "source": {"commit": "a" * 40, "is_changed": True},
    "data": "/data/lesions",
}


def parameter(effect: float, *, confirmed: bool) -> dict[str, object]:
    """An offset of 1 pixel beyond zero's, with an interval of 0.5 to both sides."""
    estimate = {"estimate": effect + 1, "low": effect + 0.5, "high": effect + 1.5, "patients": 9}
    known = {"slope": 1.0, "auroc": 0.9, "effect": effect, "p_value": 0.01}
    return estimate | known | {"status": "confirmed" if confirmed else "small"}


def page_of(folder: Path, **fields: object) -> str:
    """The page of a run with one picture."""
    picture = folder / "weights_by_round.png"
    Image.new("RGB", (4, 4)).save(picture)
    return write_run_page(folder, plain_records.summary(**RUN | fields), [picture]).read_text(encoding="utf-8")


def test_scores_are_means_of_the_last_five_rounds_with_their_extent():
    dice, distance = scores(plain_records.summary(**RUN))
    # Without the first round: 50, 60, 70, 80, 90.
    assert (dice.name, dice.mean, dice.spread, dice.last) == ("Dice, %", "70.0", "50.0 to 90.0", "90.0")
    assert (distance.name, distance.mean, distance.spread) == ("HD95", "4.0", "4.0 to 4.0")


def test_missed_cases_have_a_row_below_the_distance():
    rounds = [{"round": index, "dice": 0.5, "hd95": 4.0, "hd95_undefined": index} for index in (1, 2)]
    assert [(item.name, item.mean) for item in scores(plain_records.summary(rounds=rounds))][1:] == [
        ("HD95", "4.0"),
        ("missed, without HD95", "1.5"),
    ]


def test_empty_cases_have_a_row_of_their_own():
    rounds = [{"round": 1, "dice": 0.5, "left_empty": 0.25}]
    assert [(item.name, item.mean) for item in scores(plain_records.summary(rounds=rounds))] == [
        ("Dice, %", "50.0"),
        ("empty cases left empty, %", "25.0"),
    ]


def test_the_answer_is_the_score_or_why_there_is_none():
    assert answer(plain_records.summary(**RUN)) == "Dice 70.0 % after 6 rounds at 3 sites"
    unscored = plain_records.summary(**RUN | {"last_rounds": {}})
    assert answer(unscored) == "No Dice: neither a test set nor validation cases, after 6 rounds at 3 sites"


def test_the_page_holds_scores_sites_settings_versions_and_the_command(tmp_path):
    page = page_of(tmp_path)
    for said in ("Dice 70.0 % after 6 rounds", "50.0 to 90.0", "training.loss", "2.9.1", "a" * 40 + ", with changes"):
        assert said in page
    # In natural order, and never as markup.
    assert page.index(">site-2<") < page.index(">site-10<")
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert f"fedannot simulate {tmp_path}/job --data /data/lesions --no-plan --out {tmp_path}-again" in page
    assert caption("weights_by_round") in page.replace("&#39;", "'")


def test_nothing_is_fetched_and_no_program_runs(tmp_path):
    page = page_of(tmp_path)
    assert "://" not in page
    assert "<script" not in page
    assert "default-src &#39;none&#39;" in page
    assert 'src="data:image/png;base64,' in page


def test_channels_are_shown_with_their_intervals(tmp_path):
    sites = {
        site: {
            "parameters": {"offset 1": parameter(deviation, confirmed=confirmed)},
            "offsets": {"1": deviation} if confirmed else {},
            "missing": {},
            "undone_before_round": None,
        }
        for site, deviation, confirmed in (("site-2", 3.0, True), ("site-10", -0.25, False))
    }
    level = {"kind": "edges", "value": 0.0, "standard_error": 0.1, "is_sure": True, "unit": "px"}
    decision = {"outcome": "corrected", "corrected": ["site-2"]}
    record = {"before_round": 3, "decision": decision, "sites": sites}
    record |= {"reference_levels": {"1": level | {"reasons": [{"code": "edges"}]}}}
    rounds = [item | {"hd95_unit": "mm"} for item in ROUNDS]
    page = page_of(tmp_path, rounds=rounds, channels=[record], settings={"method": "auto", "rounds": 6})
    for said in (
        "+3.0 mm",
        "+2.5 to +3.5",
        "move contours by −3.0 mm",
        "−0.2 mm",
        "The reference level is the image boundary",
        "<svg",
    ):
        assert said in page
    assert "How sites annotate" not in page_of(tmp_path)


def test_wrong_labels_are_shown_with_their_intervals(tmp_path):
    level = {"estimate": 0.375, "low": 0.3, "high": 0.4, "patients": 150, "slope": 1.0, "auroc": 0.9, "support": 0.9}
    level |= {"support_low": 0.8, "effect": 0.375, "p_value": 0.001, "status": "confirmed", "follows": "both"}
    right = level | {
        "estimate": 0.0,
        "effect": 0.0,
        "low": -0.001,
        "high": 0.02,
        "status": "not_significant",
        "p_value": 1.0,
    }
    estimate = {
        "before_round": 3,
        "neutral": 0.0,
        "right_labels": {"code": "right_labels_zero"},
        "floor": 0.05,
        "threshold": 0.05,
    }
    page = page_of(
        tmp_path,
        noise_levels=[estimate | {"sites": {"site-2": level, "site-10": right}}],
        corrected_from_round={"site-2": 3},
        settings={"method": "auto_classification", "task": "classification", "rounds": 16},
    )
    for said in (
        "Wrong labels, %",
        "+38 %",
        "+30 to +40",
        "correct wrong labels",
        "Corrected at 1 of 2 sites: site-2.",
        "<svg",
    ):
        assert said in page
    # What rounds to nothing has no sign.
    assert "0 to +2" in page
    assert "−0" not in page


def test_generated_images_are_said_first_and_have_no_data_in_the_command(tmp_path):
    page = page_of(tmp_path, data=str(tmp_path / "data"))
    assert page.index("The images were generated") < page.index("Scores")
    assert command_again(tmp_path, plain_records.summary(**RUN | {"data": str(tmp_path / "data")})) == (
        f"fedannot simulate {tmp_path}/job --out {tmp_path}-again"
    )


@pytest.mark.parametrize(
    ("name", "is_classification", "said"),
    [
        ("cases", False, "orange-red: the site's annotation"),
        ("cases", True, "given, true and predicted classes"),
        ("site-3-own-model", False, "What the model of site-3"),
        ("something_new", False, "something new"),
    ],
)
def test_captions(name, is_classification, said):
    assert said in caption(name, is_classification=is_classification)


def test_settings_are_rows_by_dotted_key():
    assert flat_rows({"a": {"b": [1, None]}, "c": "é"}) == {"setting": ["a.b", "c"], "value": ["[1, null]", '"é"']}


def test_a_run_of_which_no_server_knows_shows_what_models_score_at_the_sites(tmp_path):
    models = {"local": {"dice": 0.625, "left_empty": 0.5, "hd95": None}}
    page = page_of(tmp_path, own_cases={"site-1": {"round": 6, "num_cases": 3, "models": models}})
    assert "own validation cases" in page
    for said in ("local left empty %", "62.5"):
        assert said in page
    assert "own validation cases" not in page_of(tmp_path)
