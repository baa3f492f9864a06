"""Colours of all pictures: those of Okabe and Ito, which people with red-green blindness can tell, too."""

BLUE, VERMILLION, GREEN, PURPLE = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
ORANGE, SKY, YELLOW = "#e69f00", "#56b4e9", "#f0e442"

# Of contours and areas on grey images.
CLEAN, ANNOTATION, PREDICTION, LEFT_OUT = YELLOW, VERMILLION, SKY, PURPLE
# Of the models of a site: the global one and its own.
GLOBAL_MODEL, OWN_MODEL = SKY, ORANGE
# Of sites that draw larger and smaller.
LARGER, SMALLER, UNGROUPED = VERMILLION, BLUE, "#777777"

_CURVES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, "#000000")
_STYLES = ("solid", "dashed", "dashdot", "dotted")
_HATCHES = ("", "///", "...", "xxx")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def curve_style(index: int) -> tuple[str, str, str]:
    """Return colour, style of line and marker of one of several curves; no two differ by colour alone.

    Args:
        index: of the curve, from 0; the first 28 differ.

    >>> curve_style(0), curve_style(7)
    (('#0072b2', 'solid', 'o'), ('#0072b2', 'dotted', 's'))
    """
    again, place = divmod(index, len(_CURVES))
    # Seven colours and four styles: the next time round a colour has another style by itself.
    return _CURVES[place], _STYLES[index % len(_STYLES)], _MARKERS[(place + again) % len(_MARKERS)]


def area_style(index: int) -> tuple[str, str]:
    """Return colour and hatch of one of several areas side by side.

    Args:
        index: of the area, from 0; the first 28 differ.

    >>> area_style(0), area_style(7)
    (('#0072b2', ''), ('#0072b2', '///'))
    """
    again, place = divmod(index, len(_CURVES))
    return _CURVES[place], _HATCHES[again % len(_HATCHES)]
