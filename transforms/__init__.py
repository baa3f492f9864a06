"""Images and masks in, images and masks out: loading, annotation noise, contour bands. Knows MONAI, not federation."""
