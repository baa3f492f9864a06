import hashlib
from pathlib import Path

import numpy as np
import pytest

from fedannot.apps.audit.case_files import CaseReader, merged
from fedannot.apps.audit.found import FoundAudit
from fedannot.custom.audit.case_arrays import CaseArrays, read_case_arrays, write_case_arrays
from fedannot.custom.data.datalist import TRAINING, read_datalist
from fedannot.custom.data.masks import read_classes
from fedannot.transforms.errors import DataError


def with_case(found, **changes):
    """The audit with another first case."""
    case = found.audit.cases[0].model_copy(update=changes)
    audit = found.audit.model_copy(update={"cases": (case, *found.audit.cases[1:])})
    return CaseReader(FoundAudit(found.folder, audit)), case


def test_of_two_suggestions_the_earlier_one_counts_where_they_differ():
    given = np.array([[0, 0, 1, 1]], dtype=np.uint8)
    suggestions = {
        "a": np.array([[2, 0, 1, 1]], dtype=np.uint8),
        "b": np.array([[3, 3, 1, 0]], dtype=np.uint8),
        "c": np.array([[0, 0, 5, 5]], dtype=np.uint8),
    }
    np.testing.assert_array_equal(merged(given, suggestions, ["a", "b"]), [[2, 3, 1, 0]])
    np.testing.assert_array_equal(merged(given, suggestions, ["b", "a"]), [[3, 3, 1, 0]])
    np.testing.assert_array_equal(merged(given, suggestions, []), given)


def test_a_suggestion_is_the_whole_annotation_with_its_place_changed(made_audits):
    """All of them together are the clean annotation, which the fixture suggests."""
    result = made_audits["slices"]
    reader = CaseReader(result)
    for case in result.audit.cases:
        read = reader.read(case)
        names = [finding.id for finding in case.findings]
        assert names
        np.testing.assert_array_equal(merged(read.given, read.suggestions, names), read.prediction)
        first = case.findings[0]
        outside = np.ones(read.given.shape, dtype=bool)
        first.place.of(outside)[...] = False
        np.testing.assert_array_equal(read.suggestions[first.id][outside], read.given[outside])


def test_a_case_that_the_datalist_no_longer_has_is_refused(made_audits):
    reader, case = with_case(made_audits["images"], image="../../../../etc/passwd")
    with pytest.raises(DataError, match="found no case with the image"):
        reader.read(case)


def test_a_class_that_has_changed_since_is_refused(made_audits):
    reader, case = with_case(made_audits["classes"], label="some other class")
    with pytest.raises(DataError, match="found no case"):
        reader.shown(case)


def test_arrays_outside_of_the_audit_are_refused(made_audits):
    reader, case = with_case(made_audits["images"], arrays="../../../x.npz")
    with pytest.raises(DataError, match="lead out of it"):
        reader.read(case)


def test_a_suggestion_of_another_shape_is_refused(audit_of):
    result = audit_of("images")
    case = next(case for case in result.audit.cases if case.findings)
    arrays = read_case_arrays(result.folder / case.arrays)
    wrong = CaseArrays(arrays.prediction, {case.findings[0].id: np.zeros((1, 1), dtype=np.uint8)})
    write_case_arrays(result.folder / case.arrays, wrong)
    with pytest.raises(DataError, match=r"has the shape \(1, 1\); expected that of its place"):
        CaseReader(result).read(case)


def test_a_prediction_of_another_shape_is_refused(audit_of):
    result = audit_of("images")
    case = result.audit.cases[0]
    write_case_arrays(result.folder / case.arrays, CaseArrays(np.zeros((1, 3, 3), dtype=np.uint8), {}))
    with pytest.raises(DataError, match=r"prediction has the shape \(1, 3, 3\)"):
        CaseReader(result).read(case)


def test_what_is_shown_is_known_by_the_hash_of_its_file(made_audits):
    result = made_audits["images"]
    case = result.audit.cases[0]
    content = (Path(result.audit.data) / case.label).read_bytes()
    assert CaseReader(result).shown(case) == hashlib.sha256(content).hexdigest()


def test_the_given_annotation_is_that_of_the_file(made_audits):
    result = made_audits["images"]
    reader = CaseReader(result)
    case = result.audit.cases[0]
    mask = read_classes(Path(result.audit.data) / case.label, reader.description)
    np.testing.assert_array_equal(reader.read(case).given[0], mask.classes)


def test_the_suggested_class_is_the_one_that_an_image_looks_like(made_audits):
    result = made_audits["classes"]
    reader = CaseReader(result)
    true = {str(c.image.name): c.clean_label for c in read_datalist(reader.datalist).section(TRAINING)}
    suspect = [case for case in result.audit.cases if case.findings]
    assert len(suspect) > 3
    for case in suspect:
        assert reader.suggested_class(case, case.findings[0]) == true[Path(case.image).name]


def test_an_object_of_several_slices_is_put_into_all_of_them(made_audits):
    result = made_audits["slices"]
    case, finding = next(
        (case, item) for case in result.audit.cases for item in case.findings if item.place.samples > 1
    )
    read = CaseReader(result).read(case)
    changed = np.flatnonzero((read.suggestions[finding.id] != read.given).any(axis=(1, 2)))
    assert (changed[0], changed[-1] + 1) == (finding.place.sample, finding.place.sample + finding.place.samples)
