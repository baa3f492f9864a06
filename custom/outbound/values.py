"""What the values of a site's answer are. Types only."""

# A number, a count, a flag, or one number or count for every class: the kinds of a field but the model.
OutboundValue = bool | int | float | list[int] | list[float]

# A site's answer, or what goes with its model: field → value.
OutboundValues = dict[str, OutboundValue]
