"""How many unannotated objects a site ignores that is established to leave objects out."""

from collections.abc import Mapping

from .answers import ChannelAnswer


def unannotated_shares(answer: ChannelAnswer, missing: Mapping[int, float]) -> dict[int, float]:
    """Return by class the share of its objects that a site does not annotate, of which the surest are ignored.

    What is established counts from the most complete site, which may leave objects out itself. Ignored are as many as
    the site leaves out by its own completeness a: 1 − a, no less than what is established. A site that hides its
    patients tells the completeness of all objects that the model predicts, with its false ones: there what is
    established counts.

    Args:
        answer: of the site.
        missing: by class, the share that is established of it.
    """
    if answer.hides_patients:
        return dict(missing)
    own = {label: answer.completeness[label - 1] for label in missing}
    return {
        label: max(share, 1 - own[label].value) if own[label].is_known else share for label, share in missing.items()
    }
