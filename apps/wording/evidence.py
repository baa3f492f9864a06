"""What statuses and reference levels rest on, in words."""

from collections.abc import Mapping, Sequence

from ...custom.annotation_bias.estimate_record import ParameterRecord, ReferenceLevelRecord
from ...custom.annotation_bias.statuses import Evidence, EvidenceCode, ReferenceKind, Status
from ...transforms.natural_order import natural_order
from .phrases import begun, filled, one_in, percent, percent_range

_OTHER_IMAGES = "it counts as out of domain, where the model may err; review some cases"
_IMAGES = "Cannot tell whether its images are like those of others"
_MEDIAN = "The reference level is the median of {sites:z.0f} {sites_word}, with which {agreeing:z.0f} agree: "
_AS_CONVENTION = "So near it counts as a convention, and nothing is corrected."
_WHO_DECIDES = "Ten reviewed cases decide, or the setting reference_level = image_boundary."
_ALIKE = "whether all err alike cannot be known without reviewed cases."

_CLAUSES: Mapping[EvidenceCode, str] = {
    EvidenceCode.TEXT: "{text}",
    EvidenceCode.THRESHOLDS: "level {level:g}, minimum effect {minimum_effect:g}",
    EvidenceCode.NO_ESTIMATE: "there is no estimate",
    EvidenceCode.NO_REFERENCE_LEVEL: "no site has an estimate that could be the reference level",
    EvidenceCode.REFERENCE_UNSURE: "it is not known where the reference level is",
    EvidenceCode.INJECTED_ERRORS_UNTRIED: "injected errors could not be tried",
    EvidenceCode.AUROC_LOW: "an injected error is distinguished from none with an AUROC of {auroc:z.2f} only",
    EvidenceCode.SLOPE_OFF: "the estimate shows {slope:z.2f} times the injected error",
    EvidenceCode.IMAGES_DIFFER: (
        "Its images differ from those of {unlike:z.0f} of {others:z.0f} other sites, most in {feature} "
        f"(AUROC {{auroc:z.2f}}): {_OTHER_IMAGES}"
    ),
    EvidenceCode.IMAGES_ALIKE: "Its images are like those of {alike:z.0f} of {others:z.0f} other sites",
    EvidenceCode.IMAGES_UNKNOWN: (
        f"{_IMAGES}: it says nothing of them (too few patients, or pixels that are no numbers); {_OTHER_IMAGES}"
    ),
    EvidenceCode.IMAGES_ALONE: f"{_IMAGES}: no other site says what its images are; {_OTHER_IMAGES}",
    EvidenceCode.MODEL_UNFIT: (
        "the model finds too few of the annotated objects to be a reference: in {found:.0%} of the annotated patients, "
        "expected {expected:.0%}"
    ),
    EvidenceCode.MISLABELLED: "most of the site's objects have the label of another class",
    EvidenceCode.NO_SUPPORT: "similar samples of the site do not agree with the model, which may not know its images",
    EvidenceCode.EARLIER_AGREES: (
        "What was confirmed before stays ({effect:+z.2f}): this estimate does not contradict it."
    ),
    EvidenceCode.REVIEWED_AGREE: (
        "Without the reviewed cases it is confirmed, and stays ({effect:+z.2f}): they do not contradict it."
    ),
    EvidenceCode.FOLLOWS_OTHERS: (
        "It follows other sites, which are confirmed: the bias is more than √2 standard errors, so correcting it is "
        "expected to make its error smaller."
    ),
    EvidenceCode.REVIEWED: (
        "The reference level is that of the reviewed annotations of {patients:z.0f} patients{where}."
    ),
    EvidenceCode.REVIEWED_ABSENT: "The reference level is to be that of reviewed annotations, but there are none.",
    EvidenceCode.REVIEWED_DIFFER: (
        "The reviewed images at the server are not of the sites' domain, and do not give the reference level."
    ),
    EvidenceCode.SITE: "The reference level is the boundary bias of {site}.",
    EvidenceCode.SITE_ABSENT: "The reference level is to be the boundary bias of {site}, which has no estimate.",
    EvidenceCode.EDGES: "The reference level is the image boundary: this assumes that correct annotations follow it.",
    EvidenceCode.EDGES_ABSENT: "The reference level is to be the image boundary, of which there is no estimate.",
    EvidenceCode.HALF_WAY: (
        "The reference level is half-way between two groups of sites: this assumes that they err equally far in the "
        "two directions."
    ),
    EvidenceCode.MOVED_TO_EDGES: "It is moved to {distance:g} {unit} from the image boundary.",
    EvidenceCode.EDGES_NEAR: "The image boundary is {difference:+z.2f} {unit} from it.",
    EvidenceCode.EDGES_FAR: "But the image boundary is {difference:+z.2f} {unit} from it.",
    EvidenceCode.MEDIAN: f"{_MEDIAN}they count as right; {_ALIKE}",
    EvidenceCode.MEDIAN_UNSURE: f"{_MEDIAN}too few to count as right; {_ALIKE}",
    EvidenceCode.GROUPS_OF_EARLIER: "They are the groups of the estimate before.",
    EvidenceCode.MEAN_OF_ESTIMATES: (
        "It is from the means of two estimates: by the last one alone it would be {difference:+z.2f} {unit} from where "
        "it was before."
    ),
    EvidenceCode.OBJECTS_LEFT_OUT: "{class}{under}: at least about {amount} may have been missed{rest}.",
    EvidenceCode.BOUNDARY_NOT_SHOWN: "its images do not show the boundary clearly enough",
    EvidenceCode.CONVENTION: (
        "{sites:z.0f} sites annotate alike, {distance:+z.2f} {unit} from the image boundary: a convention, or an "
        "error of all?"
    ),
    EvidenceCode.RIGHT_LABELS_ZERO: (
        "Right labels have a noise level of 0: it is assumed that the model is right about the samples of which "
        "it is most confident."
    ),
    EvidenceCode.RIGHT_LABELS_LEAST: (
        "Right labels have the noise level of {site}, the least of all sites: what is wrong at all sites alike cannot "
        "be known."
    ),
    EvidenceCode.FEW_PATIENTS: "there are too few patients ({patients:z.0f}; {needed:z.0f} are needed)",
    EvidenceCode.TWO_ANNOTATORS: (
        "fewer than three annotators can be compared, so that nobody knows which of them deviates"
    ),
    EvidenceCode.PAIRS: "each case has two of the annotators, whose differences are compared with the median annotator",
}
_FEATURES = {
    "detail_below_1_px": "detail below 1 px",
    "detail_of_1_to_2_px": "detail of 1 to 2 px",
    "detail_of_2_to_4_px": "detail of 2 to 4 px",
    "structure_above_4_px": "structure above 4 px",
    "gradients_at_1_px": "gradients at 1 px",
    "gradients_at_2_px": "gradients at 2 px",
}
# What has no threshold stands for a status without further words.
_STATUSES = {
    Status.CONFIRMED: ("Confirmed", "at least {minimum_effect:g}"),
    Status.SMALL: ("Too small to act on", "below the minimum effect {minimum_effect:g}"),
    Status.NOT_SIGNIFICANT: ("Not confirmed", "above {level:g}"),
    Status.UNKNOWN: ("Cannot tell", ""),
}
# For these an effect is confirmed that this estimate alone does not confirm.
_KEPT = (EvidenceCode.EARLIER_AGREES, EvidenceCode.REVIEWED_AGREE, EvidenceCode.FOLLOWS_OTHERS)
# With these an effect would say nothing.
_WITHOUT_EFFECT = (EvidenceCode.MISLABELLED, EvidenceCode.NO_SUPPORT)


def evidence_in_words(evidence: Evidence, unit: str | None = None) -> str:
    """Return one thing that a status or a level rests on.

    Args:
        evidence: what it is.
        unit: of its lengths.
    """
    return filled(_CLAUSES[evidence.code], evidence.numbers, {"unit": unit or "px"}, evidence.names, _extra(evidence))


def reference_level_in_words(level: ReferenceLevelRecord | None) -> str:
    """Return where the reference level is and what that assumes, with the groups of sites where it names them."""
    if level is None:
        return "No site has an estimate that could be the reference level."
    sentence = " ".join(evidence_in_words(reason, level.unit) for reason in level.reasons)
    if level.kind is ReferenceKind.CONVENTION:
        sentence += f" {_AS_CONVENTION if level.is_confident else _WHO_DECIDES}"
    if not level.groups:
        return sentence
    groups = "; ".join(", ".join(sorted(group, key=natural_order)) for group in level.groups)
    return f"{sentence} The groups: {groups}."


def reason_in_words(record: ParameterRecord) -> str:
    """Return evidence, threshold and decision of a parameter."""
    if (text := _text_of(record.evidence)) is not None:
        return text
    begin, threshold = _STATUSES[record.status]
    kept = [evidence_in_words(item) for item in record.evidence if item.code in _KEPT]
    why = next((item for item in record.evidence if item.code not in _KEPT), None)
    if why is None:
        sentence = f"{begin}."
    elif kept and why.code is EvidenceCode.THRESHOLDS:
        alone = f"corrected p = {record.p_value or 0.0:z.3f}, {evidence_in_words(why)}"
        sentence = f"Not confirmed by this estimate alone: {alone}."
    elif why.code is EvidenceCode.THRESHOLDS:
        shown = f"{record.effect or 0.0:+z.2f} from the reference level, corrected p = {record.p_value or 0.0:z.3f}"
        sentence = f"{begin}: {shown}, {filled(threshold, why.numbers)}."
    else:
        is_shown = record.effect is not None and why.code not in _WITHOUT_EFFECT
        effect = f" ({record.effect:+z.2f})" if is_shown else ""
        # What stands against it, though an earlier estimate stays.
        sentence = f"{_STATUSES[Status.UNKNOWN][0]}: {evidence_in_words(why)}{effect}."
    return " ".join([sentence, *kept])


def _text_of(evidence: Sequence[Evidence]) -> str | None:
    """The sentence of version 1, where there is one."""
    return next((item.names["text"] for item in evidence if item.code is EvidenceCode.TEXT), None)


def _extra(evidence: Evidence) -> dict[str, str]:
    """Words of a clause that hang on its numbers."""
    numbers, names = evidence.numbers, evidence.names
    if evidence.code in (EvidenceCode.MEDIAN, EvidenceCode.MEDIAN_UNSURE):
        return {"sites_word": "site" if numbers.get("sites") == 1 else "sites"}
    if evidence.code is EvidenceCode.REVIEWED:
        return {"where": " at the server" if numbers.get("at_server") else ""}
    if evidence.code is EvidenceCode.IMAGES_DIFFER:
        feature = names.get("feature", "?")
        return {"feature": _FEATURES.get(feature, feature.replace("_", " "))}
    if evidence.code is EvidenceCode.OBJECTS_LEFT_OUT:
        return _left_out(numbers, names)
    return {}


def _left_out(numbers: Mapping[str, float], names: Mapping[str, str]) -> dict[str, str]:
    limit, larger = numbers.get("limit"), numbers.get("larger")
    low, high = (numbers.get(end, 0.0) for end in ("low", "high"))
    size = "" if limit is None else f"{limit:z.0f}" if limit >= 100 else f"{limit:.2g}"
    return {
        "class": begun(names.get("class", "?")),
        "under": f" under {size} {names.get('unit', '')}" if size else "",
        "amount": f"{one_in(numbers.get('share', 0.0))} ({percent_range(low, high)})",
        "rest": "" if larger is None else f", of larger ones {percent(larger)}",
    }
