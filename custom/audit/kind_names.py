"""The kinds of problems of which shares leave a site, in their order; what declares what leaves loads no numpy."""

SEGMENTATION_KINDS = ("boundary", "missing", "spurious", "swapped", "misaligned", "wrong_pair")
CLASSIFICATION_KINDS = ("wrong_label",)
