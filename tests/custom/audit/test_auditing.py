"""Sites of which it is known what is wrong, from data and networks to findings and files."""

import numpy as np
import pytest
import torch
from support.examined_cases import drawn, seen
from torch import nn

from fedannot.custom.audit.auditing import audit_site
from fedannot.custom.audit.case_arrays import read_case_arrays
from fedannot.custom.audit.findings import REFERENCE
from fedannot.custom.audit.thresholds import THRESHOLDS
from fedannot.custom.data.description import ImageDescription, SliceDescription
from fedannot.custom.data.site_data import LoadedCase, SiteData
from fedannot.custom.evaluation.inference import Inference

INFERENCE = Inference(4)
SECOND = ((12, 50), 5)
NUM_SEEN = np.count_nonzero(seen(SECOND) > 0.5 + 1e-6)


class Reader(nn.Module):
    """Its image is the logit of the foreground."""

    def __init__(self, sign: float = 1.0) -> None:
        super().__init__()
        self.sign = nn.Parameter(torch.tensor(sign))

    def forward(self, images):
        return torch.cat([torch.zeros_like(images), self.sign * images], dim=1)


def loaded(index, mask, foreground, spacing=None):
    logit = np.log(foreground / (1 - foreground)).astype(np.float32)
    image, label = torch.from_numpy(logit)[None, None], torch.from_numpy(mask)[None]
    return LoadedCase(f"{index:02}.png", f"patient-{index:02}", image, label, None, spacing)


def discs(count=14, seed=100, spacing=None):
    """Two discs a case, drawn where they are seen, but for small random offsets."""
    generator = np.random.default_rng(seed)
    cases = []
    for index in range(count):
        centre, radius = generator.uniform(32, 44, 2), generator.uniform(8, 12)
        offset = 0.3 * generator.standard_normal()
        result = ((centre - 4, radius), SECOND)
        cases.append(loaded(index, drawn((centre - 4, radius + offset), SECOND), seen(*result), spacing))
    return cases


def site_of(cases):
    description = ImageDescription(channels=1, size=(64, 64), classes=("lesion",), labels={0: 0, 1: 1})
    return SiteData("site-1", tuple(cases), description, ())


def relabelled(case, mask):
    return LoadedCase(case.name, case.unit, case.image, torch.from_numpy(mask)[None], None, case.spacing)


def audited(cases, out, seed=1, network_of=None):
    network = Reader()
    return audit_site(site_of(cases), network_of or (lambda _: network), INFERENCE, out, out, seed=seed)


def of_kind(cases, kind):
    return [(case, finding) for case in cases for finding in case.findings if finding.kind == kind]


def test_a_site_without_errors_has_no_findings(tmp_path):
    cases, kinds = audited(discs(), tmp_path)
    assert not any(case.has_problem for case in cases)
    assert all(kind.num_findings == 0 for kind in kinds)
    assert list((tmp_path / "cases").iterdir()) == []


def test_ten_patients_without_findings_are_asked_for_a_reference_and_no_prediction_is_kept(tmp_path):
    cases = discs()
    cases[5] = relabelled(cases[5], drawn(SECOND))
    result, _ = audited(cases, tmp_path)
    asked = [case for case in result if any(finding.kind == REFERENCE for finding in case.findings)]
    assert len({case.unit for case in asked}) == len(asked) == THRESHOLDS.reference_patients
    assert all(len(case.findings) == 1 and not case.arrays and not case.has_problem for case in asked)
    assert result[0].has_problem
    assert result[0].image == "05.png"


def test_injected_errors_of_every_kind_are_reported_where_the_model_is_right(tmp_path):
    _, kinds = audited(discs(), tmp_path)
    aurocs = {kind.kind: kind.auroc for kind in kinds if kind.auroc is not None}
    assert set(aurocs) == {"boundary", "missing", "spurious", "misaligned", "wrong_pair"}
    assert min(aurocs.values()) >= 0.9
    assert all(kind.patients == 10 for kind in kinds if kind.auroc is not None)


def test_a_lesion_left_out_is_the_first_finding(tmp_path):
    cases = discs()
    mask = cases[5].label[0].numpy().copy()
    mask[drawn(SECOND) > 0] = 0
    before, cases[5] = cases[5], relabelled(cases[5], mask)
    result, kinds = audited(cases, tmp_path)
    assert result[0].image == "05.png"
    assert [item.kind for item in result[0].findings] == ["missing"]
    assert [kind.num_cases for kind in kinds if kind.kind == "missing"] == [1]
    finding = result[0].findings[0]
    assert finding.probability > 0.3
    assert finding.size == NUM_SEEN
    arrays = read_case_arrays(tmp_path / result[0].arrays)
    mended = mask[None].copy()
    finding.place.of(mended)[...] = arrays.suggestions[finding.id]
    assert np.count_nonzero(mended[0] != before.label[0].numpy()) <= drawn(SECOND).sum() - NUM_SEEN


def test_a_contour_drawn_two_pixels_outside_has_that_amount_with_its_sign_and_unit(tmp_path):
    cases = discs(spacing=(0.5, 0.5))
    foreground = seen(((32, 32), 10), SECOND)
    cases.append(loaded(14, drawn(((32, 32), 14), SECOND), foreground, (0.5, 0.5)))
    result, _ = audited(cases, tmp_path)
    case, finding = of_kind(result, "boundary")[0]
    assert case.image == "14.png"
    assert finding.amount == pytest.approx(2.0, abs=0.2)
    assert (finding.amount_unit, finding.size_unit) == ("mm", "mm²")


def test_findings_keep_their_names_and_numbers_in_a_repeated_audit(tmp_path):
    cases = discs()
    cases[5] = relabelled(cases[5], drawn(SECOND))
    first, _ = audited(cases, tmp_path / "first")
    second, _ = audited(cases, tmp_path / "second")
    assert first == second
    names = [finding.id for case in first for finding in case.findings]
    assert names
    assert len(names) == len(set(names))
    third, _ = audited(cases, tmp_path / "third", seed=2)
    # What was not found in a case follows no order that lasts.
    assert set(names) == {finding.id for case in third for finding in case.findings}


def test_each_network_predicts_its_own_cases(tmp_path):
    cases = discs()
    right, wrong = Reader(), Reader(-1.0)
    result, _ = audited(cases, tmp_path, network_of=lambda case: wrong if case.name in ("03.png", "08.png") else right)
    far = {case.image for case in result if case.disagreement > 0.5}
    assert far == {"03.png", "08.png"}


def test_a_shifted_annotation_explains_its_objects(tmp_path):
    cases = discs()
    cases[5] = relabelled(cases[5], np.roll(cases[5].label[0].numpy(), (-14, 0), (0, 1)))
    result, _ = audited(cases, tmp_path)
    assert result[0].image == "05.png"
    # It may fit another image by chance, too.
    assert {"misaligned"} <= {finding.kind for finding in result[0].findings} <= {"misaligned", "wrong_pair"}
    assert all(finding.place is None for finding in result[0].findings)


def test_arrays_of_an_earlier_audit_go(tmp_path):
    cases = discs()
    wrong = [*cases[:5], relabelled(cases[5], drawn(SECOND)), *cases[6:]]
    audited(wrong, tmp_path)
    assert list((tmp_path / "cases").iterdir())
    audited(cases, tmp_path)
    assert not list((tmp_path / "cases").iterdir())


def test_a_lesion_in_several_slices_is_one_finding(tmp_path):
    slices = []
    for index, case in enumerate(discs(12)):
        stack = case.image.repeat(6, 1, 1, 1)
        stack[:1] = stack[-1:] = -6.0
        mask = case.label.repeat(6, 1, 1)
        mask[0] = mask[-1] = 0
        if index == 4:
            mask[:, torch.from_numpy(drawn(SECOND) > 0)] = 0
        slices.append(LoadedCase(case.name, case.unit, stack, mask, None, (1.0, 1.0), 2.0))
    description = SliceDescription(size=(64, 64), classes=("lesion",), labels={0: 0, 1: 1})
    network = Reader()
    data = SiteData("site-1", tuple(slices), description, ())
    result, _ = audit_site(data, lambda _: network, INFERENCE, tmp_path, tmp_path, seed=1)
    ((case, finding),) = of_kind(result, "missing")
    assert case.image == "04.png"
    assert (finding.place.sample, finding.place.samples) == (0, 6)
    assert finding.size_unit == "ml"
    assert finding.size == pytest.approx(4 * NUM_SEEN * 2 / 1000)
    mended = slices[4].label.numpy().copy()
    finding.place.of(mended)[...] = read_case_arrays(tmp_path / case.arrays).suggestions[finding.id]
    assert mended[:, drawn(SECOND) > 0].sum() == 4 * NUM_SEEN
