"""What the pictures of a run show, in words, by the names of their files."""

_CAPTIONS = {
    "dice": (
        "Dice of the global model over the rounds, on cases in which something is annotated; dotted: a new stage of "
        "the method."
    ),
    "f1": "Macro F1 of the global model over the rounds; dotted: a new stage of the method.",
    "weights": (
        "How much each site counts in each layer block of the new model. Quality counts more in deeper blocks, in the "
        "first one the number of images alone."
    ),
    "weights_by_round": (
        "How much each site counts in the new model, round by round; of a site's layer blocks the one in which the "
        "fewest sites count. Below: how many sites of equal weight would be as many."
    ),
    "groups": (
        "How hard the pixels just inside and just outside the annotated contours are for the model, by site. A site "
        "whose contours are too large has wrong pixels inside, one whose contours are too small outside."
    ),
    "cases": (
        "Cases of some sites, and of the test set. Yellow: the clean contour, where it is known; orange-red: the "
        "site's annotation; blue: the model. Purple: objects that the site missed."
    ),
    "confusion": "Test cases by true and predicted class; the darker, the larger the fraction of the true class.",
    "own_cases": "Dice of the global model and of each site's own on that site's validation cases.",
}
_CASES_WITH_CLASSES = (
    "Cases of some sites, and of the test set, with their given, true and predicted classes; orange: they differ."
)
_OWN_MODEL = (
    "What the model of {site} says compared with the global one, on the site's validation cases; right: where its own "
    "layers change the probability of the foreground."
)


def caption(name: str, *, is_classification: bool = False) -> str:
    """Return what a picture shows.

    Args:
        name: of its file, without what is behind the dot.
        is_classification: whether the run learnt classes.

    >>> caption("site-3-own-model")[:32]
    'What the model of site-3 says co'
    """
    if name.endswith("-own-model"):
        return _OWN_MODEL.format(site=name.removesuffix("-own-model"))
    if name == "cases" and is_classification:
        return _CASES_WITH_CLASSES
    return _CAPTIONS.get(name, name.replace("_", " "))
