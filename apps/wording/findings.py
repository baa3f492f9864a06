"""Kinds of problems, findings, and how they were found, in words."""

from ...custom.audit.findings import NOTHING_FOUND, REFERENCE, Finding, ReferenceModelKind
from .phrases import percent

REFERENCE_TITLE = "For the reference"
NOTHING_FOUND_TITLE = "Nothing found"
KIND_TITLES = {
    "boundary": "Contours too large or too small",
    "empty": "Empty annotations",
    "equal_images": "Equal images with different annotations",
    "misaligned": "Annotations shifted or mirrored",
    "missing": "Missed objects",
    "missing_slice": "Missed slices inside an object",
    "specks": "Specks",
    "spurious": "Objects where none is",
    "swapped": "Objects of another class",
    "wrong_pair": "Annotations of another image",
    "wrong_label": "Wrong labels",
}
_QUESTION = (
    "Nothing was found here. The case was sampled at random as a reference: keep the annotation if it is as it should "
    "be, leave it for later if not, and correct it in a tool for masks."
)


_SEEN = (
    "Nothing was found here, which does not say that nothing is wrong. Look, and say what you see: nothing wrong, or "
    "for later with a comment."
)


def kind_title(kind: str) -> str:
    """Return the title of a kind of problem; of one that another version has, its name."""
    return KIND_TITLES.get(kind, kind.replace("_", " "))


def finding_in_words(finding: Finding) -> str:
    """Return what is wrong, for a reader who sees the image; the sentence of version 1 where that is all."""
    if finding.text:
        return finding.text
    if finding.kind == REFERENCE:
        return _QUESTION
    if finding.kind == NOTHING_FOUND:
        return _SEEN
    names, figures = [*finding.classes, "?", "?"], finding.figures
    given, other = names[:2]
    if finding.kind == "boundary":
        amount = finding.amount or 0.0
        return (
            f"The contour of {given} lies {abs(amount):z.1f} {finding.amount_unit or 'px'} farther "
            f"{'outside' if amount > 0 else 'inside'} than this site's contours typically do."
        )
    if finding.kind == "misaligned":
        return _misaligned(figures)
    if finding.kind == "wrong_label":
        probabilities = (percent(figures.get(f"{which}_probability", 0.0)) for which in ("other", "given"))
        of_other, of_given = probabilities
        return f"Labelled {given}, looks like {other}: the model gives {other} {of_other} and {given} {of_given}."
    if finding.kind == "specks":
        pixels = round(figures.get("pixels", 0))
        return f"A speck of {pixels} pixel{'s' if pixels != 1 else ''} is annotated as {given}."
    probability = percent(figures.get("probability", 0.0))
    sentences = {
        "empty": (
            f"Nothing is annotated, while {percent(figures.get('annotated_share', 0.0))} of this site's cases have an "
            "annotation."
        ),
        "equal_images": (
            f"Case {figures.get('other_case', 0):z.0f} of the list has the same image and another annotation."
        ),
        "missing": (
            f"Here {given} may have been missed: the model sees it with a probability of {probability}, and nothing "
            "is annotated."
        ),
        "missing_slice": f"In the slices on both sides {given} is annotated, and in this one it is not.",
        "spurious": f"The model sees nothing where {given} is annotated: a probability of {probability} on average.",
        "swapped": f"What is annotated as {given} looks like {other}.",
        "wrong_pair": "The annotation does not fit this image and may be that of another one.",
    }
    return sentences.get(finding.kind, f"{kind_title(finding.kind)}.")


def _misaligned(figures: dict[str, float]) -> str:
    shift = round(figures.get("shift", 0))
    how = [*(["mirrored"] if figures.get("mirrored") else []), *([f"shifted by {shift} pixels"] if shift else [])]
    return f"The annotation would fit the image better if it were {' and '.join(how) or 'moved'}."


def reference_model_in_words(predicted: ReferenceModelKind) -> str:
    """Return which model predicted which cases."""
    if predicted.text:
        return predicted.text
    if predicted.folds == 1:
        return "an early model of all sites, which has learnt these annotations in part"
    sentence = f"{predicted.folds} models of all sites, each of which predicts the patients that it has not learnt"
    if predicted.num_absent:
        sentence += f"; of {predicted.num_absent} the model was not kept here, and the last one predicts in its place"
    return sentence
