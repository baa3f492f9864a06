"""The label of pixels of which an annotation says nothing: neither background nor any class."""

# Labels are uint8 from the file to the loss, so it is the same number in every type of mask. Classes end at 254.
#
# What a loss or a score does with it: such pixels have weight 0. Cross entropy takes it as `ignore_index`. Losses of
# the Dice kind multiply both probabilities and one-hot labels with the pixels that count before anything is summed,
# since a one-hot label cannot be made of it. Metrics leave such pixels out of prediction and annotation alike. Whatever
# counts objects or measures distances treats them as background that is no error.
IGNORED_LABEL = 255
