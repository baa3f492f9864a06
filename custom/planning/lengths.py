"""How many numbers a fingerprint has. Constants only: fields that leave a site are declared without what computes."""

AXES = 3
INTENSITY_BINS = 192
