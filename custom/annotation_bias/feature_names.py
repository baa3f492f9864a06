"""What is measured of a site's images; what leaves a site is declared without numpy."""

FEATURES = (
    "brightness",
    "contrast",
    "skewness of intensities",
    "tails of intensities",
    "detail below 1 px",
    "detail of 1 to 2 px",
    "detail of 2 to 4 px",
    "structure above 4 px",
    "noise",
    "tails of fine detail",
    "correlation of fine detail",
    "gradients at 1 px",
    "gradients at 2 px",
    "sharpest edges",
    "direction of gradients",
    "border against centre",
    "flat area",
    "hue",
    "colour",
)
