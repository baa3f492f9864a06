"""Where reviewed annotations come from: the content of ``provenance.json`` beside them."""

from typing import Literal

from ...custom.data.json_record import JsonRecord

PROVENANCE_FILE = "provenance.json"

Origin = Literal["accepted", "edited", "kept"]


class DecidedFinding(JsonRecord):
    """A decision, as far as it became part of an annotation, or kept one as it is.

    Args:
        finding: its id.
        sentence: what looked wrong.
        choice: ``accept`` or ``keep``.
        reviewer: who decided.
        time: when.
        reason: a comment, may be empty.
    """

    finding: str
    sentence: str
    choice: Literal["accept", "keep"]
    reviewer: str
    time: str
    reason: str


class ReviewedAnnotation(JsonRecord):
    """One annotation that somebody has decided about.

    Args:
        image: relative to the site's data.
        given: the given annotation, likewise; of a classification the name of the given class.
        given_sha256: hash of the given file when this was written; of a classification of the name.
        origin: ``accepted`` suggestions, ``edited`` in another tool, or ``kept`` as given.
        file: the new file, relative to the folder; of a classification the new class; empty where it is kept.
        changed: pixels or voxels of another class than in the given one.
        is_reviewed: whether all that was found in the case is decided, so that it counts as a reference.
        decisions: of its findings.
    """

    image: str
    given: str
    given_sha256: str
    origin: Origin
    file: str
    changed: int
    is_reviewed: bool
    decisions: tuple[DecidedFinding, ...]


class ReviewedAnnotations(JsonRecord):
    """The content of ``provenance.json``.

    Args:
        version: of this form.
        site: the site's name.
        data: the folder with the site's data.
        audit: the folder of the audit.
        audited: when, by the site's clock.
        method: the method that audited.
        model_sha256: hash of the model that judged last.
        written: when these files were.
        annotations: all about which somebody has decided.
    """

    version: Literal[1] = 1
    site: str
    data: str
    audit: str
    audited: str
    method: str
    model_sha256: str
    written: str
    annotations: tuple[ReviewedAnnotation, ...]
