"""The colours of all figures, which readers with any kind of colour blindness tell apart.

They are those of Okabe and Ito, "Color universal design" (2008), https://jfly.uni-koeln.de/color, without yellow, which
is too pale for lines on white.
"""

BLUE = "#0072b2"
VERMILION = "#d55e00"
GREEN = "#009e73"
PURPLE = "#cc79a7"
ORANGE = "#e69f00"
SKY_BLUE = "#56b4e9"
GREY = "#8a8a8a"
DARK_GREY = "#4d4d4d"
SERIES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY_BLUE, DARK_GREY)  # in the order in which they are used
LINES = ("-", "--", ":", "-.")  # of the first seven lines, of the next seven, ...

DUPLICATE = BLUE
OTHER = VERMILION


def colour(place: int) -> str:
    """The colour of a line or bar by its place; after seven they come again."""
    return SERIES[place % len(SERIES)]


def line_style(place: int) -> str:
    """The kind of a line by its place, by which lines of one colour differ."""
    return LINES[place // len(SERIES) % len(LINES)]
