"""What may leave a site: exactly the registered fields, of the right kind, over enough cases."""

import math

import pytest
import torch
from plain_records import in_words

from fedannot.custom.methods import METHODS
from fedannot.custom.outbound.fields import MINIMUM_CASES, OutboundField
from fedannot.custom.outbound.registry import OutboundError, OutboundRegistry
from fedannot.custom.task_names import (
    AUDIT_CASES,
    AUDIT_LABELS,
    COMPARE_SCORES,
    CONCLUDE,
    CORRECT_ANNOTATION_BIAS,
    CORRECT_ANNOTATIONS,
    CORRECT_LABELS,
    ESTIMATE_ANNOTATION_BIAS,
    ESTIMATE_CLASS_LOSSES,
    ESTIMATE_COMPLETENESS,
    ESTIMATE_CONFUSION,
    ESTIMATE_NOISE_SHARE,
    ESTIMATE_QUALITY,
    ESTIMATE_SITE_NOISE,
    FINGERPRINT,
    KEEP_MODEL,
    KEEP_PEER_MODEL,
    KEEP_REFERENCE_MODEL,
    KEEP_SCORES,
    MEASURE_BOUNDARY_PROFILE,
    MEASURE_OVERLAP,
    MEASURE_PROFILE_ERROR,
    MEASURE_SCORER_GRADIENT,
    TRAIN,
    USE_GIVEN_LABELS,
    VALIDATE,
    VALIDATE_CLASSES,
)

# Of all methods at once, so that what one of them sends is tried beside what the others do.
REGISTRY = OutboundRegistry(dict.fromkeys(field for method in METHODS for field in method.outbound_fields))
NAN = math.nan
PARAMS = {"w": torch.zeros(2)}
TRAIN_RESULT = {"params": PARAMS, "num_samples": 8, "num_excluded": 1, "embedded_data": False}
TRAIN_RESULT |= {"num_threads": 4, "significand_bits": 8, "preparation": [0.0, 1.0, 64.0, 64.0, *[NAN] * 13]}
TRAIN_RESULT |= {"train_loss": 0.25, "num_patients": 4}
TRAIN_RESULT |= {"dice_loss": 0.5, "num_dice_patients": 3, "has_corrected": False, "noise_level": 0.25}
TRAIN_RESULT |= {"has_undone": True, "moved_patients": 8, "undoes_confusion": False}
TRAIN_RESULT |= {"selector_means": [0.2, 2.0], "selector_variances": [0.1, 0.5], "selector_priors": [0.7, 0.3]}
TRAIN_RESULT |= {"selector_patients": [5, 3]}
TRAIN_RESULT |= {"prototypes": [0.5, 1.5, 2.5, -1.0, NAN, NAN], "num_prototype_patients": [4, 3, 0]}
TRAIN_RESULT |= {"class_centroids": [0.5, 1.5, NAN, NAN], "num_centroid_patients": [4, 0]}
TRAIN_RESULT |= {"selection_weight": 0.5, "num_scored_patients": 4}
TRAIN_RESULT |= {"privacy_epsilon": 3.5, "privacy_delta": 1e-5, "patient_epsilon": 8.5}
TRAIN_RESULT |= {"statistics_epsilon": 0.5, "statistics_delta": 1e-6, "num_steps": 12}
COMPLETENESS_RESULT = {
    "num_samples": 8,
    "num_patients": 4,
    "num_annotated_lesions": 10,
    "num_predicted_lesions": 20,
    "num_matched_lesions": 9,
    "completeness": 0.5,
    "completeness_low": 0.25,
    "completeness_high": 0.75,
    "lesion_recall": 1.0,
    "lesion_precision": NAN,
}
ESTIMATE_RESULT = {
    "num_samples": 8,
    "num_annotated": 4,
    "num_estimated": [7, 3],
    "inner_difficulty": [0.5, 0.25],
    "outer_difficulty": [1.5, 2.5],
    "predicted_share": 0.75,
}
VALIDATE_RESULT = {"num_samples": 5, "dice": [0.5, 0.75], "hd95": [4.0, 2.0], "num_defined": [5, 3], "num_patients": 4}
VALIDATE_RESULT |= {"num_class_patients": [4, 3], "num_distance_patients": [4, 3]}
VALIDATE_RESULT |= {"num_class_cases": [5, 3], "left_empty": [NAN, 0.5], "num_empty_patients": [0, 3]}
CLASSES_RESULT = {"num_samples": 9, "num_patients": 9, "num_class_patients": [5, 4]}
CLASSES_RESULT |= {"num_correct": [3, 2], "num_labelled": [5, 4], "num_predicted": [5, 4]}


def made(task):
    """A complete result of a task, from what is declared: the values say nothing here."""
    values = {"number": 0.5, "numbers": [0.5], "count": 5, "counts": [5], "flag": True}
    fields = REGISTRY.of_task(task).values()
    return {
        item.name: ([1] if item.names_classes else values[item.kind]) * (item.length or 2 * item.per_class)
        if item.kind in ("numbers", "counts")
        else values[item.kind]
        for item in fields
    }


FINGERPRINT_RESULT = {
    "num_samples": 8,
    "num_patients": 4,
    "spacing_known": [1.0],
    "spacing_means": [0.0, 0.5, 1.0],
    "spacing_squares": [0.0, 0.25, 1.0],
    "extent_means": [4.0, 4.0, 3.0],
    "extent_squares": [16.0, 16.0, 9.0],
    "class_fractions": [0.1, 0.2],
    "class_presence": [1.0, 0.5],
    "foreground": [1.0] + [0.0] * 191,
}
COMPLETE = {
    FINGERPRINT: FINGERPRINT_RESULT,
    TRAIN: TRAIN_RESULT,
    ESTIMATE_QUALITY: ESTIMATE_RESULT,
    ESTIMATE_COMPLETENESS: COMPLETENESS_RESULT,
    CORRECT_ANNOTATIONS: {"has_corrected": True},
    VALIDATE: VALIDATE_RESULT,
    VALIDATE_CLASSES: CLASSES_RESULT,
    KEEP_MODEL: {"has_model": True},
    KEEP_PEER_MODEL: {"has_peer": True},
    **{
        task: made(task)
        for task in (
            *(ESTIMATE_ANNOTATION_BIAS, CORRECT_ANNOTATION_BIAS, ESTIMATE_CONFUSION, CORRECT_LABELS, USE_GIVEN_LABELS),
            *(KEEP_SCORES, COMPARE_SCORES, KEEP_REFERENCE_MODEL, AUDIT_CASES, AUDIT_LABELS, CONCLUDE),
            *(MEASURE_BOUNDARY_PROFILE, MEASURE_PROFILE_ERROR, ESTIMATE_CLASS_LOSSES, MEASURE_SCORER_GRADIENT),
            *(MEASURE_OVERLAP, ESTIMATE_SITE_NOISE, ESTIMATE_NOISE_SHARE),
        )
    },
}

KIND_NAMES = {
    "model": "a state dict",
    "number": "a number",
    "numbers": "a list of numbers",
    "count": "a count",
    "counts": "a list of counts",
    "flag": "a flag",
}


@pytest.mark.parametrize("task", COMPLETE)
def test_complete_results_may_leave_and_hold_every_registered_field(task):
    REGISTRY.check(task, COMPLETE[task])
    assert set(COMPLETE[task]) == set(REGISTRY.of_task(task))


@pytest.mark.parametrize("task", COMPLETE)
def test_every_part_of_a_result_that_has_its_counts_may_leave(task):
    counters = {field.counted_by for field in REGISTRY.fields} - {None}
    for name in COMPLETE[task]:
        REGISTRY.check(task, {key: value for key, value in COMPLETE[task].items() if key in {name} | counters})
    REGISTRY.check(task, {})


@pytest.mark.parametrize("task", COMPLETE)
def test_fields_of_other_tasks_may_not_leave(task):
    for field in REGISTRY.fields:
        if field.name not in REGISTRY.of_task(task):
            value = next(result[field.name] for result in COMPLETE.values() if field.name in result)
            with pytest.raises(OutboundError, match=rf"Task '{task}' may not send \['{field.name}'\]; allowed: \["):
                REGISTRY.check(task, COMPLETE[task] | {field.name: value})


def test_unlisted_fields_are_named_and_the_allowed_ones_listed():
    with pytest.raises(OutboundError) as caught:
        REGISTRY.check(VALIDATE, VALIDATE_RESULT | {"file_names": ["a.png"], "dice_per_case": [0.1]})
    assert str(caught.value) == (
        "Task 'validate' may not send ['dice_per_case', 'file_names']; "
        "allowed: ['dice', 'hd95', 'left_empty', 'num_class_cases', 'num_class_patients', 'num_defined', "
        "'num_distance_patients', 'num_empty_patients', 'num_patients', 'num_samples']."
    )


def test_unknown_task_may_send_nothing():
    REGISTRY.check("dump", {})
    with pytest.raises(OutboundError, match=r"Task 'dump' may not send \['num_samples'\]; allowed: \[\]\."):
        REGISTRY.check("dump", {"num_samples": 3})


@pytest.mark.parametrize(
    ("task", "field", "value", "kind"),
    [
        (TRAIN, "params", [torch.zeros(1)], "model"),
        (TRAIN, "params", {"w": [1.0]}, "model"),
        (TRAIN, "params", {1: torch.zeros(1)}, "model"),
        (TRAIN, "num_samples", 8.0, "count"),
        (TRAIN, "num_samples", True, "count"),
        (TRAIN, "num_samples", -1, "count"),
        (TRAIN, "num_excluded", "1", "count"),
        (TRAIN, "embedded_data", 1, "flag"),
        (TRAIN, "train_loss", [0.25], "number"),
        (TRAIN, "train_loss", 1, "number"),
        (TRAIN, "train_loss", torch.tensor(0.25), "number"),
        (ESTIMATE_QUALITY, "num_annotated", [4], "count"),
        (ESTIMATE_QUALITY, "num_estimated", 7, "counts"),
        (ESTIMATE_QUALITY, "num_estimated", [7, True], "counts"),
        (ESTIMATE_QUALITY, "num_estimated", [7, 3.0], "counts"),
        (ESTIMATE_QUALITY, "inner_difficulty", (0.5, 0.25), "numbers"),
        (ESTIMATE_QUALITY, "inner_difficulty", [0.5, "0.25"], "numbers"),
        (ESTIMATE_QUALITY, "inner_difficulty", [[0.5], [0.25]], "numbers"),
        (VALIDATE, "dice", 0.5, "numbers"),
    ],
)
def test_values_of_another_kind_may_not_leave(task, field, value, kind):
    with pytest.raises(OutboundError) as caught:
        REGISTRY.check(task, COMPLETE[task] | {field: value})
    expected = f"Task {task!r}: field {field!r} must be {KIND_NAMES[kind]}, but is {type(value).__name__}."
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("task", "changes", "field", "count"),
    [
        (TRAIN, {"num_patients": 2}, "train_loss", 2),
        (TRAIN, {"num_dice_patients": 2}, "dice_loss", 2),
        (ESTIMATE_COMPLETENESS, {"num_patients": 2}, "num_annotated_lesions", 2),
        (ESTIMATE_QUALITY, {"num_estimated": [7, 2]}, "inner_difficulty", 2),
        (ESTIMATE_QUALITY, {"num_estimated": [0, 3]}, "inner_difficulty", 0),
        (ESTIMATE_QUALITY, {"num_estimated": [7, 2], "inner_difficulty": [0.5, NAN]}, "outer_difficulty", 2),
        (ESTIMATE_QUALITY, {"num_annotated": 2}, "predicted_share", 2),
        (TRAIN, {"selector_patients": [22, 2]}, "selector_means", 2),
        (TRAIN, {"selector_patients": [0, 24]}, "selector_means", 0),
        (TRAIN, {"num_prototype_patients": [4, 2, 0]}, "prototypes", 2),
        (TRAIN, {"num_centroid_patients": [2, 0]}, "class_centroids", 2),
        (VALIDATE, {"num_class_patients": [4, 2]}, "dice", 2),
        (VALIDATE, {"num_class_patients": [0, 4]}, "dice", 0),
        (VALIDATE, {"num_distance_patients": [1, 3]}, "hd95", 1),
        (VALIDATE, {"num_empty_patients": [0, 2]}, "left_empty", 2),
        (VALIDATE, {"num_patients": 2}, "num_class_cases", 2),
        (VALIDATE_CLASSES, {"num_class_patients": [5, 2]}, "num_correct", 2),
        (VALIDATE_CLASSES, {"num_class_patients": [2, 5], "num_correct": [0, 2]}, "num_labelled", 2),
        (VALIDATE_CLASSES, {"num_patients": 2}, "num_predicted", 2),
    ],
)
def test_means_over_too_few_cases_may_not_leave(task, changes, field, count):
    with pytest.raises(OutboundError) as caught:
        REGISTRY.check(task, COMPLETE[task] | changes)
    assert str(caught.value) == (
        f"Task {task!r}: {field!r} is a mean over {count} cases; at least {MINIMUM_CASES} are needed."
    )
    # Nor does a server take it from a site whose guard is another one.
    refused = in_words(REGISTRY.refusal(task, COMPLETE[task] | changes, 2))
    assert f" has an entry of {count} patients, expected at least {MINIMUM_CASES} or none" in refused


@pytest.mark.parametrize(
    ("task", "counter", "field"),
    [
        (TRAIN, "num_patients", "train_loss"),
        (TRAIN, "num_dice_patients", "dice_loss"),
        (ESTIMATE_COMPLETENESS, "num_patients", "num_annotated_lesions"),
        (TRAIN, "selector_patients", "selector_means"),
        (TRAIN, "num_prototype_patients", "prototypes"),
        (TRAIN, "num_centroid_patients", "class_centroids"),
        (VALIDATE, "num_class_patients", "dice"),
        (ESTIMATE_QUALITY, "num_estimated", "inner_difficulty"),
        (ESTIMATE_QUALITY, "num_annotated", "predicted_share"),
        (VALIDATE, "num_distance_patients", "hd95"),
        (VALIDATE, "num_empty_patients", "left_empty"),
        (VALIDATE, "num_patients", "num_class_cases"),
        (VALIDATE_CLASSES, "num_class_patients", "num_correct"),
    ],
)
def test_means_without_their_counts_may_not_leave(task, counter, field):
    result = {key: value for key, value in COMPLETE[task].items() if key != counter}
    with pytest.raises(OutboundError, match=f"'{field}' is a mean over None cases"):
        REGISTRY.check(task, result)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", [8.0, "8", True, None, NAN, math.inf, -1, torch.tensor(8), {}, [8.0], ["8"], [None]])
@pytest.mark.parametrize(
    ("task", "counter"),
    [
        (TRAIN, "num_patients"),
        (ESTIMATE_QUALITY, "num_annotated"),
        (ESTIMATE_QUALITY, "num_estimated"),
        (VALIDATE, "num_defined"),
    ],
)
def test_counts_of_another_kind_may_not_leave_whatever_the_order_of_the_fields(task, counter, count, reverse):
    result = COMPLETE[task] | {counter: count}
    if reverse:
        result = dict(reversed(result.items()))
    with pytest.raises(OutboundError):
        REGISTRY.check(task, result)


def test_fraction_of_annotated_samples_is_counted_by_them_and_not_by_all():
    assert REGISTRY.of_task(ESTIMATE_QUALITY)["predicted_share"].counted_by == "num_annotated"
    REGISTRY.check(ESTIMATE_QUALITY, ESTIMATE_RESULT | {"num_annotated": MINIMUM_CASES})
    with pytest.raises(OutboundError, match="'predicted_share' is a mean over 2 cases"):
        REGISTRY.check(ESTIMATE_QUALITY, ESTIMATE_RESULT | {"num_samples": 100, "num_annotated": 2})


@pytest.mark.parametrize("task", COMPLETE)
def test_what_is_computed_over_patients_names_a_counter_of_the_same_task(task):
    registered = REGISTRY.of_task(task)
    for field in registered.values():
        is_sum_over_patients = field.name.endswith(("_lesions", "_class_cases", "_pixels")) or field.tasks == (
            VALIDATE_CLASSES,
        )
        # What privacy has been spent follows from the number of results and the noise, not from the data.
        is_account = field.optional in ("privacy", "private statistics")
        # What data.yaml says is of no patient.
        is_described = field.name == "preparation"
        is_mean = field.kind in ("number", "numbers") and not is_account and not is_described
        # That it is there at all is what a site has concluded from all of them; and the middle of the sizes of images.
        is_of_all = field.name in ("moved_patients", "profile_halvings") or field.names_classes
        assert (field.counted_by is not None) == (is_mean or is_sum_over_patients or is_of_all)
        if field.counted_by is not None:
            assert registered[field.counted_by].kind in ("count", "counts")


def test_a_field_that_is_declared_twice_for_a_task_is_refused():
    again = OutboundField("train_loss", ("measure", TRAIN), "count", "as another kind it would pass unseen")
    with pytest.raises(ValueError, match=r"^Expected one field 'train_loss' of the task 'train', but it is declared"):
        OutboundRegistry([again])


def test_a_name_may_stand_for_another_field_in_another_task():
    registry = OutboundRegistry([OutboundField("train_loss", ("measure",), "count", "of something else")])
    registry.check("measure", {"train_loss": 3})
    with pytest.raises(OutboundError, match="Task 'train': field 'train_loss' must be a number, but is int"):
        registry.check(TRAIN, {"train_loss": 3})


def test_tasks_are_those_of_all_methods_and_of_the_declared_fields():
    assert OutboundRegistry().tasks == {TRAIN, VALIDATE, VALIDATE_CLASSES}
    assert REGISTRY.tasks == set(COMPLETE)
    assert OutboundRegistry().of_task(ESTIMATE_QUALITY) == {}


def test_a_part_of_a_list_for_each_class_needs_the_class_s_patients():
    """A curve of 97 numbers for each of two classes, of which the second has two patients."""
    result = COMPLETE[MEASURE_BOUNDARY_PROFILE]
    few = result | {"profile_patients": [5, 2]}
    with pytest.raises(OutboundError, match="'profile_curve' is a mean over 2 cases"):
        REGISTRY.check(MEASURE_BOUNDARY_PROFILE, few)
    REGISTRY.check(
        MEASURE_BOUNDARY_PROFILE, few | {"profile_curve": [0.5] * 97 + [NAN] * 97, "profile_radius": [9.0, NAN]}
    )
    assert REGISTRY.refusal(MEASURE_BOUNDARY_PROFILE, result, 2) is None
    assert REGISTRY.refusal(MEASURE_BOUNDARY_PROFILE, result, 3) is not None


@pytest.mark.parametrize(
    ("values", "stays"),
    [
        ({"dice_loss": NAN, "num_dice_patients": 0}, True),
        # Of two patients even that it is undefined says something.
        ({"dice_loss": NAN, "num_dice_patients": 2}, False),
        ({"dice_loss": 0.5, "num_dice_patients": 2}, False),
        ({"dice_loss": 0.5, "num_dice_patients": 0}, False),
        ({"dice_loss": 0.5, "num_dice_patients": 3}, True),
    ],
)
def test_a_number_over_no_patient_stays_if_it_is_undefined(values, stays):
    result = COMPLETE[TRAIN] | values
    left = REGISTRY.without_small(TRAIN, result)
    assert set(result) - set(left) == (set() if stays else set(values))
    REGISTRY.check(TRAIN, left)


def test_undefined_entries_may_leave_under_the_minimum():
    REGISTRY.check(
        ESTIMATE_QUALITY,
        ESTIMATE_RESULT | {"num_estimated": [2, 3], "inner_difficulty": [NAN, 0.25], "outer_difficulty": [NAN, 2.5]},
    )
    REGISTRY.check(VALIDATE, VALIDATE_RESULT | {"num_distance_patients": [3, 0], "hd95": [4.0, NAN]})
    REGISTRY.check(VALIDATE, VALIDATE_RESULT | {"num_class_patients": [3, 1], "dice": [0.5, NAN]})
    REGISTRY.check(VALIDATE, VALIDATE_RESULT | {"num_empty_patients": [3, 2], "left_empty": [0.5, NAN]})
    none_of_second = {"num_class_patients": [5, 0], "num_correct": [3, 0], "num_labelled": [5, 0]}
    REGISTRY.check(VALIDATE_CLASSES, CLASSES_RESULT | none_of_second)


@pytest.mark.parametrize(("field", "value"), [("train_loss", math.inf), ("inner_difficulty", [0.5, -math.inf])])
def test_the_server_cannot_use_what_is_infinite(field, value):
    task = TRAIN if field == "train_loss" else ESTIMATE_QUALITY
    text = in_words(REGISTRY.refusal(task, COMPLETE[task] | {field: value}, 2))
    assert text.startswith(f"its {field!r} is {value}, expected -1.79")


@pytest.mark.parametrize("value", [math.inf, -math.inf])
@pytest.mark.parametrize(
    ("task", "field"), [(TRAIN, "train_loss"), (TRAIN, "selector_variances"), (ESTIMATE_QUALITY, "inner_difficulty")]
)
def test_infinite_values_may_not_leave(task, field, value):
    sent = [0.5, value] if isinstance(COMPLETE[task][field], list) else value
    with pytest.raises(OutboundError, match=rf"field '{field}' must be finite, but is .*inf"):
        REGISTRY.check(task, COMPLETE[task] | {field: sent})


def test_a_bound_that_is_none_may_leave():
    REGISTRY.check(TRAIN, TRAIN_RESULT | {"privacy_epsilon": math.inf, "patient_epsilon": math.inf})


@pytest.mark.parametrize("task", COMPLETE)
def test_without_what_is_over_patients_the_server_can_use_the_rest(task):
    left = REGISTRY.without_counted(task, COMPLETE[task])
    assert REGISTRY.refusal(task, left, 2) is None
    REGISTRY.check(task, left)
    for field in REGISTRY.fields:
        if field.name in left and field.counted_by:
            value = left[field.name]
            assert all(map(math.isnan, value if isinstance(value, list) else [value])), field.name


def test_what_is_left_without_what_is_over_patients():
    assert set(REGISTRY.without_counted(TRAIN, TRAIN_RESULT)) == {
        "params",
        *("num_samples", "num_excluded", "embedded_data", "num_threads", "preparation", "has_corrected"),
        *("significand_bits", "has_undone", "undoes_confusion", "num_steps"),
        *("privacy_epsilon", "privacy_delta", "patient_epsilon", "statistics_epsilon", "statistics_delta"),
    }
    assert set(REGISTRY.without_counted(ESTIMATE_QUALITY, ESTIMATE_RESULT)) == set(ESTIMATE_RESULT) - {
        "predicted_share"
    }
    kept = {"inner_difficulty", "outer_difficulty", "predicted_share"}
    assert REGISTRY.without_counted(ESTIMATE_QUALITY, ESTIMATE_RESULT, kept) == ESTIMATE_RESULT
    assert REGISTRY.without_counted(VALIDATE, VALIDATE_RESULT, {"dice"}) == {"num_samples": 5}, "a group goes together"
    assert REGISTRY.without_counted(KEEP_MODEL, {"has_model": True, "unknown": 1}) == {"has_model": True, "unknown": 1}


def test_counts_must_be_as_many_as_the_means():
    with pytest.raises(OutboundError, match=r"'inner_difficulty' has 2 entries, its counts 3\."):
        REGISTRY.check(ESTIMATE_QUALITY, ESTIMATE_RESULT | {"num_estimated": [7, 3, 3]})


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ([0.5] * 4, [3, 3, 3]),
        ([], [3, 3, 3]),
        ([0.5] * 3 * 4097, [3, 3, 3]),
        ([0.5] * 6, [3, 3]),
        ([1e4] * 6, [3, 3, 3]),
    ],
)
def test_a_list_as_wide_as_a_network_has_whole_rows_for_every_class(values, counts):
    """Of two classes and the background; neither none of them nor more than the largest width."""
    sent = TRAIN_RESULT | {"prototypes": values, "num_prototype_patients": counts}
    assert REGISTRY.refusal(TRAIN, sent, 2) is not None
    assert REGISTRY.refusal(TRAIN, sent | {"prototypes": [0.5] * 9, "num_prototype_patients": [3, 3, 3]}, 2) is None


@pytest.mark.parametrize("task", COMPLETE)
def test_the_server_can_use_what_may_leave_and_ignores_what_it_does_not_know(task):
    assert REGISTRY.refusal(task, COMPLETE[task], 2) is None
    beside_the_model = {name: value for name, value in COMPLETE[task].items() if name != "params"}
    assert REGISTRY.refusal(task, beside_the_model | {"client_name": "site-1", "params": None}, 2) is None


@pytest.mark.parametrize(
    ("task", "held_back"),
    [
        (TRAIN, {"train_loss", "num_patients"}),
        (TRAIN, {"selector_means", "selector_variances", "selector_priors", "selector_patients"}),
        (TRAIN, {"dice_loss", "num_dice_patients"}),
        (TRAIN, {"prototypes", "num_prototype_patients"}),
        (TRAIN, {"class_centroids", "num_centroid_patients"}),
        (TRAIN, {"train_loss", "num_patients", "dice_loss", "num_dice_patients", "has_corrected"}),
        (ESTIMATE_COMPLETENESS, set(COMPLETENESS_RESULT) - {"num_samples"}),
        (ESTIMATE_QUALITY, {"predicted_share"}),
        (VALIDATE, set(VALIDATE_RESULT) - {"num_samples"}),
    ],
)
def test_the_server_does_without_the_means_that_small_sites_hold_back(task, held_back):
    report = {name: value for name, value in COMPLETE[task].items() if name not in held_back}
    assert REGISTRY.refusal(task, report, 2) is None


@pytest.mark.parametrize("missing", sorted(set(VALIDATE_RESULT) - {"num_samples"}))
def test_what_a_site_may_hold_back_belongs_together(missing):
    report = {name: value for name, value in VALIDATE_RESULT.items() if name != missing}
    assert in_words(REGISTRY.refusal(VALIDATE, report, 2)) == f"its result lacks {missing!r}"


@pytest.mark.parametrize("missing", ["dice_loss", "num_dice_patients"])
def test_each_group_of_what_a_site_may_hold_back_belongs_together(missing):
    report = {name: value for name, value in TRAIN_RESULT.items() if name != missing}
    assert in_words(REGISTRY.refusal(TRAIN, report, 2)) == f"its result lacks {missing!r}"


@pytest.mark.parametrize(("value", "refused"), [(-0.01, True), (0.0, False), (1.0, False), (1.01, True), (NAN, False)])
def test_a_value_out_of_its_range_is_refused_with_the_range(value, refused):
    reason = in_words(REGISTRY.refusal(TRAIN, TRAIN_RESULT | {"dice_loss": value}, 2))
    assert reason == (f"its 'dice_loss' is {value}, expected 0.0 to 1.0" if refused else None)


@pytest.mark.parametrize(
    ("task", "missing"),
    [
        (TRAIN, "num_samples"),
        (TRAIN, "num_excluded"),
        (TRAIN, "embedded_data"),
        (ESTIMATE_QUALITY, "inner_difficulty"),
        (ESTIMATE_QUALITY, "outer_difficulty"),
        (ESTIMATE_QUALITY, "num_annotated"),
        (VALIDATE, "num_samples"),
    ],
)
def test_the_server_names_what_a_result_lacks(task, missing):
    report = {name: value for name, value in COMPLETE[task].items() if name != missing}
    assert in_words(REGISTRY.refusal(task, report, 2)) == f"its result lacks {missing!r}"


@pytest.mark.parametrize(
    ("task", "field", "value", "reason"),
    [
        (TRAIN, "num_samples", "8", "its 'num_samples' is str, expected a count"),
        (TRAIN, "num_samples", True, "its 'num_samples' is bool, expected a count"),
        (TRAIN, "train_loss", None, "its 'train_loss' is NoneType, expected a number"),
        (ESTIMATE_QUALITY, "inner_difficulty", 0.5, "its 'inner_difficulty' is float, expected a list of numbers"),
        (ESTIMATE_QUALITY, "outer_difficulty", [0.5], "its 'outer_difficulty' has 1 entries, expected 2"),
        (ESTIMATE_QUALITY, "num_estimated", [7, 3, 3], "its 'num_estimated' has 3 entries, expected 2"),
        (VALIDATE, "dice", [], "its 'dice' has 0 entries, expected 2"),
    ],
)
def test_the_server_names_the_field_that_it_cannot_use(task, field, value, reason):
    assert in_words(REGISTRY.refusal(task, COMPLETE[task] | {field: value}, 2)) == reason
