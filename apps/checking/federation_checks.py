"""What is wrong between the sites of a federation: they do not fit together, or they have the same cases."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from ...custom.data.datalist import REFERENCE, SECTIONS, TESTING
from .facts import CaseFacts, SiteFacts
from .finding import Finding, Severity, plural, site_finding
from .fingerprints import group_fingerprints, image_fingerprints
from .patient_names import LikelyPatients, likely_patients

_SHOWN_PATIENTS = 5

# What a site tells the others of its cases: (what, list) → fingerprints, each with the site's own file names.
_Fingerprints = dict[tuple[str, str], dict[str, list[str]]]


def check_same_task(sites: Sequence[SiteFacts], task: str) -> Iterator[tuple[str, Finding]]:
    """Find sites that cannot train one model with the others: another task, classes, channels or number of axes.

    Args:
        sites: the sites and the test set.
        task: what ``federation.yaml`` names.

    Yields:
        Name of the site and what is wrong with it.
    """
    named = all(site.description.channel_names for site in sites)
    properties = {site.site: _properties(site, with_names=named) for site in sites}
    for name, most_common in _most_common(list(properties.values()), task).items():
        for site, values in properties.items():
            if values[name] != most_common:
                others = "federation.yaml says" if name == "task" else "other sites have"
                yield (
                    site,
                    site_finding(
                        Severity.ERROR,
                        "unlike-other-sites",
                        f"found {name} {values[name]}; {others} {most_common}.",
                        "Describe all sites alike in their data.yaml; they train one model.",
                        files=["data.yaml"],
                        blocks_training=True,
                    ),
                )


def check_shared_cases(sites: Sequence[SiteFacts], salt: bytes) -> Iterator[tuple[str, Finding]]:
    """Find images and groups that two sites have, or a site and the common test set, by salted fingerprints only.

    Each site learns which of its own files are concerned, never what the other site calls them.

    Yields:
        Name of the site and what was found.
    """
    fingerprints = {site.site: _fingerprints(site, salt) for site in sites}
    for site in sites:
        if site.is_test:
            continue
        for other in sites:
            if other is not site:
                for finding in _shared(fingerprints[site.site], fingerprints[other.site], other):
                    yield site.site, finding


def check_likely_patients(sites: Sequence[SiteFacts]) -> Iterator[tuple[str, Finding]]:
    """Find patients in several lists, whom only the names of images tell: in a site's, or in one and the test set.

    Cases whose datalist names a group are passed over: it says who belongs together. Hospitals name files in ways of
    their own, so each is looked at by itself, too, and with the test set.

    Yields:
        Name of the site and what was found.
    """
    tested = [site for site in sites if site.is_test]
    of_all = dict(_likely_findings(sites))
    for site in sites:
        alone = [] if site.is_test else [_likely_findings([site, *tested]), _likely_findings([site])]
        findings = [of_all.get(site.site), *(dict(one).get(site.site) for one in alone)]
        known = [one for one in findings if one is not None]
        if known:
            # Of equal ones the first.
            yield site.site, min(known, key=lambda one: one.severity is not Severity.WARNING)


def _likely_findings(sites: Sequence[SiteFacts]) -> Iterator[tuple[str, Finding]]:
    """What names tell of sites together."""
    listed = [(site, case) for site in sites for case in site.cases if case.group is None and case.section != REFERENCE]
    patients = likely_patients([case.name for _, case in listed])
    if patients is None:
        return
    found = _by_site(listed, patients)
    tested = {patient for site in sites if site.is_test for patient in found[site.site]}
    for site in sites:
        own = found[site.site]
        parted = {
            patient: cases
            for patient, cases in own.items()
            if len({case.section for case in cases}) > 1
            or (not site.is_test and patient in tested and any(case.section != TESTING for case in cases))
        }
        if parted:
            yield site.site, _likely_leakage(parted, patients.pattern)
        elif not site.is_test and any(len(cases) > 1 for cases in own.values()):
            yield site.site, _likely_groups(own, patients.pattern)


def _by_site(
    listed: Sequence[tuple[SiteFacts, CaseFacts]], patients: LikelyPatients
) -> dict[str, dict[tuple[str | None, str], list[CaseFacts]]]:
    """Of every site the cases of every likely patient, who is known by source and name."""
    found: dict[str, dict[tuple[str | None, str], list[CaseFacts]]] = defaultdict(lambda: defaultdict(list))
    for place, patient in patients.of.items():
        site, case = listed[place]
        found[site.site][case.case.source, patient].append(case)
    return found


def _likely_leakage(parted: Mapping[tuple[str | None, str], Sequence[CaseFacts]], pattern: str) -> Finding:
    shown = ", ".join(patient for _, patient in list(parted)[:_SHOWN_PATIENTS])
    more = ", …" if len(parted) > _SHOWN_PATIENTS else ""
    return Finding(
        Severity.WARNING,
        "likely-patient-leakage",
        tuple(case.name for cases in parted.values() for case in cases),
        f"found names that look like several images of one patient, of {plural(len(parted), 'patient')} both in "
        f"training and in validation or test: {shown}{more}.",
        f"Import again with --group '{pattern}', or give these cases their 'group' in the datalist; else the scores "
        "are too good. If they are different patients, give each its own 'group'.",
    )


def _likely_groups(own: Mapping[tuple[str | None, str], Sequence[CaseFacts]], pattern: str) -> Finding:
    several = [cases for cases in own.values() if len(cases) > 1]
    return Finding(
        Severity.NOTE,
        "likely-patients",
        tuple(case.name for cases in several for case in cases),
        f"found names that look like several images of one patient: {sum(map(len, several))} images of "
        f"{plural(len(several), 'patient')}.",
        f"Import with --group '{pattern}', or name the 'group' in the datalist: patients are counted by it.",
    )


def _shared(own: _Fingerprints, others: _Fingerprints, other: SiteFacts) -> Iterator[Finding]:
    for what in ("image", "group"):
        names: list[str] = []
        places: dict[str, int] = {}
        for here, there in product(SECTIONS, SECTIONS):
            # What a site tests on may be in the common test set, too.
            if other.is_test and here == TESTING:
                continue
            common = own[what, here].keys() & others[what, there].keys()
            if common:
                places[f"{here} here, {there} there"] = len(common)
                names += [name for value, of_value in own[what, here].items() if value in common for name in of_value]
        if names:
            yield _shared_finding(what, list(dict.fromkeys(names)), places, other)


def _shared_finding(what: str, names: Sequence[str], places: Mapping[str, int], other: SiteFacts) -> Finding:
    where = "; ".join(f"{plural(count, what)} ({place})" for place, count in places.items())
    same = "exactly the same pixels" if what == "image" else "the same source and group"
    kind = "test-leakage" if other.is_test else f"shared-{what}s"
    remedy = (
        "Take them out of the test set or of the site, else the scores are too good."
        if other.is_test
        else "Agree with the other site who keeps them; shared cases count twice."
    )
    if what == "group":
        remedy += " If the names are the same by chance, give the cases of each site their 'source'."
    return Finding(
        Severity.WARNING,
        kind if what == "image" or not other.is_test else "test-group-leakage",
        tuple(names),
        f"found {same} at {other.site}: {where}.",
        remedy,
    )


def _fingerprints(site: SiteFacts, salt: bytes) -> _Fingerprints:
    result: _Fingerprints = {}
    for section in SECTIONS:
        cases = site.section(section)
        result["image", section] = image_fingerprints(cases, salt)
        result["group", section] = group_fingerprints(cases, salt, need_source=False)
    return result


def _properties(site: SiteFacts, *, with_names: bool) -> dict[str, str]:
    description = site.description
    return {
        "task": "classification" if site.is_classification else "segmentation",
        "classes": ", ".join(description.classes),
        "channels": ", ".join(description.channel_names) if with_names else str(description.in_channels),
        "spatial axes": str(description.spatial_dims),
    }


def _most_common(properties: Sequence[dict[str, str]], task: str) -> dict[str, str]:
    """The task of the federation, and of the other properties the value that most sites have, the first of equals."""
    most_common = {name: Counter(values[name] for values in properties).most_common(1)[0][0] for name in properties[0]}
    return most_common | {"task": task}
