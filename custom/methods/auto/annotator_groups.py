"""The groups of a site's cases by annotator, as `auto` corrects them: who is which number, and who may be reported."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...annotation_bias.thresholds import THRESHOLDS
from ...corrections.targets import case_files
from ...data.json_record import JsonRecord, read_record, write_record
from ...data.site_data import LoadedCase, SiteData
from ...interface.views import SiteView
from ...outbound.patient_groups import released_groups
from ..audit.annotators import named_annotators
from .outbound import BIAS_FIELDS, MOST_GROUPS, PROFILE_FIELDS, REFERENCE

GROUPS_FILE = "annotator_groups.json"


class AnnotatorGroups(JsonRecord):
    """Which cases of a site are whose in a run; it has names, and stays at the site.

    Args:
        numbers: by annotator the number that the server knows, from 1.
        cases: by annotation, relative to the site's data, the number of its group; 0 for all that have none of their
            own.
    """

    numbers: dict[str, int]
    cases: dict[str, int]

    def of(self, data: SiteData, number: int, data_folder: Path) -> SiteData:
        """Return the site with the cases of one group alone; cases that are new in the run are in none."""
        own = [case for case in data.cases if self.cases.get(case_files(case, data_folder)[0]) == number]
        return replace(data, cases=tuple(own))


def site_groups(site: SiteView, data: SiteData) -> AnnotatorGroups:
    """Return the groups of a site, the same in a run whatever becomes of its datalist; they stay at the site.

    Args:
        site: the site.
        data: its training cases.

    Raises:
        DataError: if what was kept cannot be read.
    """
    folder = site.locate().folder
    for place in (site.run_folder, *site.earlier_folders):
        kept = read_record(place / GROUPS_FILE, AnnotatorGroups)
        if kept is not None:
            break
    else:
        kept = drawn_groups(data, folder, seed=site.seed)
    write_record(site.run_folder / GROUPS_FILE, kept)
    return kept


def drawn_groups(data: SiteData, data_folder: Path, *, seed: int) -> AnnotatorGroups:
    """Return the groups of cases by annotator, numbered by a digest of seed, site and masks.

    The order says nothing of names, and a site that has lost its folder finds the same. Cases with several annotations,
    or by nobody known, are group 0, and so are the annotators beyond eight, those with the fewest patients. No group,
    nor the rest, has fewer patients than may leave.

    Args:
        data: the training cases.
        data_folder: the folder of the site's data.
        seed: the job's.
    """
    own: dict[str, list[LoadedCase]] = {}
    for case in data.cases:
        names = named_annotators(case)
        if len(names) == 1 and case.annotations is None:
            own.setdefault(names[0], []).append(case)
    digests = {name: _digest(cases, data.site, seed) for name, cases in own.items()}
    patients = {name: {case.unit for case in cases} for name, cases in own.items()}
    largest = sorted(own, key=lambda name: (-len(patients[name]), digests[name]))[:MOST_GROUPS]
    of_some = {id(case) for name in largest for case in own[name]}
    others = {case.unit for case in data.cases if id(case) not in of_some}
    leaves = released_groups([patients[name] for name in largest], others, minimum=THRESHOLDS.min_patients_of_annotator)
    released = sorted((name for name, is_in in zip(largest, leaves, strict=True) if is_in), key=digests.__getitem__)
    numbers = {name: number for number, name in enumerate(released, start=1)}
    return AnnotatorGroups(numbers=numbers, cases=_numbers_of_cases(data, own, numbers, data_folder))


def without_few(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an annotator's group answers without the classes of fewer than five patients.

    What reviewed cases say of the model is of the site, and stays by the minimum count of sites.

    Args:
        fields: of an answer.
    """
    declared = [item for item in (*BIAS_FIELDS, *PROFILE_FIELDS) if not item.name.startswith(REFERENCE)]
    minimum = THRESHOLDS.min_patients_of_annotator
    names = {item.counted_by for item in declared if item.counted_by} | {"annotated_patients"}
    counts = {name: of for name in sorted(names) if isinstance(of := fields.get(name), list)}
    few = {name: [count < minimum for count in of] for name, of in counts.items()}
    result = dict(fields)
    for item in declared:
        values = fields.get(item.name)
        if item.counted_by in few and isinstance(values, list):
            entries = len(values) // len(few[item.counted_by])
            is_few = [one for one in few[item.counted_by] for _ in range(entries)]
            result[item.name] = [math.nan if left else value for value, left in zip(values, is_few, strict=True)]
    kept = {name: [0 if left else n for n, left in zip(of, few[name], strict=True)] for name, of in counts.items()}
    return result | kept


def _numbers_of_cases(
    data: SiteData, own: Mapping[str, list[LoadedCase]], numbers: Mapping[str, int], data_folder: Path
) -> dict[str, int]:
    number_of = {id(case): numbers.get(name, 0) for name, cases in own.items() for case in cases}
    return {case_files(case, data_folder)[0]: number_of.get(id(case), 0) for case in data.cases}


def _digest(cases: list[LoadedCase], site: str, seed: int) -> str:
    """By masks that no server has seen, so that it cannot make it of a name that it guesses."""
    digest = hashlib.sha256(f"{seed}\n{site}\n".encode())
    masks = sorted(hashlib.sha256(_given(case)).digest() for case in cases)
    for mask in masks:
        digest.update(mask)
    return digest.hexdigest()


def _given(case: LoadedCase) -> bytes:
    mask = case.label if case.given_label is None else case.given_label
    return mask.contiguous().numpy().tobytes()
