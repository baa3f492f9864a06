"""What the annotations of a site leave out: empty masks, absent classes, objects outside the pipeline's crop."""

from collections import Counter
from collections.abc import Iterator, Sequence

from ...custom.data.datalist import TRAINING
from .facts import SiteFacts
from .finding import Finding, Severity, plural, site_finding

# A smaller loss than this fraction of an annotation's voxels is its rim.
CUT_SHARE = 0.01


def check_empty_annotations(site: SiteFacts) -> Iterator[Finding]:
    """Find out how many usable cases have no foreground; that all have none is found by `check_trainable`."""
    for section in dict.fromkeys(case.section for case in site.cases):
        annotations = site.annotations(section)
        empty = [case.label or case.name for case, facts in annotations if not facts.areas]
        if empty and len(empty) < len(annotations):
            yield site_finding(
                Severity.NOTE,
                "empty-annotation",
                f"found {len(empty)} of {len(annotations)} annotations of the list {section!r} empty "
                f"({len(empty) / len(annotations):.0%}).",
                "Nothing to do if these patients have no finding; else annotate them.",
                files=empty,
            )


def check_absent_classes(site: SiteFacts) -> Iterator[Finding]:
    """Find classes that no usable training case has, and classification with a single class."""
    annotations = site.annotations(TRAINING)
    present = class_counts(site)
    absent = [name for name, count in present.items() if not count]
    if not annotations or len(absent) == len(present):
        return
    if absent:
        yield site_finding(
            Severity.NOTE,
            "absent-class",
            f"found no training case with {', '.join(absent)}; the site teaches the model nothing about it.",
            "Nothing to do if the site has no such patients; else check the labels.",
        )
    if site.is_classification and len(present) - len(absent) == 1:
        yield site_finding(
            Severity.WARNING,
            "single-class",
            f"found one class in all of {plural(len(annotations), 'training case')}; expected at least two, to "
            "distinguish them.",
            "Check the labels in the datalist, or join the site's cases with another's.",
        )


def check_cut_annotations(site: SiteFacts) -> Iterator[Finding]:
    """Find annotations of volumes that reach out of the part that the pipeline crops."""
    for case in site.cases:
        if not case.is_usable or case.annotation is None or case.annotation.share_kept > 1 - CUT_SHARE:
            continue
        yield Finding(
            Severity.WARNING,
            "cut-annotation",
            (case.label or case.name,),
            f"the pipeline's crop cuts off {1 - case.annotation.share_kept:.0%} of the annotated voxels.",
            "Write fit: resize into data.yaml, for all sites alike, or raise 'size', or try crop: foreground.",
        )


def class_counts(site: SiteFacts, section: str = TRAINING) -> dict[str, int]:
    """Return how many usable cases of a list have each class; classes that the site does not annotate are absent."""
    counts = Counter(label for _, facts in site.annotations(section) for label in facts.areas)
    return {site.class_names[label]: counts[label] for label in site.annotated_labels}


def check_ignored_cases(site: SiteFacts) -> Iterator[Finding]:
    """Find usable training cases of which every pixel is ignored, so that they teach nothing."""
    ignored = [case.label or case.name for case, facts in site.annotations(TRAINING) if facts.ignored == 1]
    if ignored:
        yield site_finding(
            Severity.WARNING,
            "ignored-everywhere",
            f"found {plural(len(ignored), 'training case')} of which every pixel is ignored; they teach nothing.",
            "Compare the masks with 'ignore' in data.yaml, or take the cases out of the datalist.",
            files=ignored,
        )


def check_annotated_by_nobody(sites: Sequence[SiteFacts]) -> Iterator[tuple[str, Finding]]:
    """Find classes that no site annotates.

    Args:
        sites: the sites and the test set.

    Yields:
        Name of the first site and what is wrong.
    """
    annotating = [site for site in sites if not site.is_test]
    known = {site.class_names[label] for site in annotating for label in site.annotated_labels}
    for name in annotating[0].class_names.values() if annotating else ():
        if name not in known:
            yield (
                annotating[0].site,
                site_finding(
                    Severity.WARNING,
                    "annotated-by-nobody",
                    f"found no site that annotates {name}; nothing teaches the model what it is.",
                    "Correct 'annotated_classes' in data.yaml, or take the class out of 'classes' at all sites.",
                ),
            )
