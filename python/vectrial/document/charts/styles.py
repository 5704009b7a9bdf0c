"""One colour per store and one marker per series, the same in every chart and table.

Colours follow Okabe and Ito's set for colour-blind readers, darkened for white and lightened for
dark paper so that each keeps a contrast of at least 3:1 on its background; the marker tells
them apart without any colour. Charts are drawn with the light colours; in the HTML each
becomes a variable of the style sheet, which is how dark mode and highlighting work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vectrial.model.trial import Series

_PALETTE = (
    ("#0072b2", "#56aee8"),  # blue
    ("#d55e00", "#ff8f4f"),  # vermillion
    ("#00835f", "#35c698"),  # green
    ("#b5508c", "#ec9cc8"),  # pink
    ("#b37400", "#f2b93b"),  # amber
    ("#2f8fcb", "#9ad6ff"),  # sky
    ("#882255", "#d9749f"),  # wine
    ("#44505f", "#c3ccd8"),  # slate
    ("#7a7a1e", "#cdcd62"),  # olive
    ("#6a4fb6", "#ab96f5"),  # violet
)

#: Marker outlines in a square from -1 to 1 (the units of a Vega custom shape).
SHAPES = (
    "M-0.9,0A0.9,0.9,0,1,1,0.9,0A0.9,0.9,0,1,1,-0.9,0Z",  # circle
    "M-0.8,-0.8L0.8,-0.8L0.8,0.8L-0.8,0.8Z",  # square
    "M0,-1L0.9,0.75L-0.9,0.75Z",  # triangle up
    "M0,-1.05L1.05,0L0,1.05L-1.05,0Z",  # diamond
    "M0,1L0.9,-0.75L-0.9,-0.75Z",  # triangle down
    "M-0.33,-1L0.33,-1L0.33,-0.33L1,-0.33L1,0.33L0.33,0.33L0.33,1L-0.33,1L-0.33,0.33L-1,0.33"
    "L-1,-0.33L-0.33,-0.33Z",  # plus
    "M0,-1L0.95,-0.31L0.59,0.81L-0.59,0.81L-0.95,-0.31Z",  # pentagon
    "M-0.95,-0.8L0.95,-0.8L-0.95,0.8L0.95,0.8Z",  # hourglass
    "M1,0L-0.75,0.9L-0.75,-0.9Z",  # triangle right
    "M0,-1L0.26,-0.36L0.95,-0.31L0.42,0.14L0.59,0.81L0,0.44L-0.59,0.81L-0.42,0.14L-0.95,-0.31"
    "L-0.26,-0.36Z",  # star
    "M-1,0L0.75,0.9L0.75,-0.9Z",  # triangle left
    "M0.87,-0.5L0.87,0.5L0,1L-0.87,0.5L-0.87,-0.5L0,-1Z",  # hexagon
    "M-0.8,-0.95L0.8,0.95L0.8,-0.95L-0.8,0.95Z",  # bow tie
    "M-0.4,-1L0.4,-1L0.4,1L-0.4,1Z",  # bar
)

_DASHES: tuple[list[int], ...] = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])

#: Colours of the charts besides the stores' colours: name → (light, dark).
INK = {
    "ink": ("#1b222c", "#e8ecf2"),
    "muted": ("#596473", "#a3adbb"),
    "grid": ("#e2e6eb", "#2b333f"),
    "axis": ("#b9c1cb", "#465060"),
    "halo": ("#d3dae3", "#3a4453"),
    "paper": ("#ffffff", "#161b22"),
    "wrong": ("#b3261e", "#ff8a80"),
    "step1": ("#3d6f99", "#6fa8d8"),
    "step2": ("#8fb4d3", "#39628a"),
    "step3": ("#d9a441", "#c98f2b"),
    "step4": ("#b9a0c9", "#8f74a8"),
    "step5": ("#6d8f5c", "#92b97f"),
    "step6": ("#a45a52", "#cf847b"),
    "step7": ("#4f6d6d", "#7fa3a3"),
    "step8": ("#a9b0ba", "#5d6875"),
}


def colour(store: str, stores: Sequence[str], dark: bool = False) -> str:
    """A store's colour as #rrggbb, different from that of any other store.

    From the eleventh store on colours repeat with an invisible change, so that the colour still
    identifies the store in a drawing.
    """
    index = stores.index(store)
    base = int(_PALETTE[index % len(_PALETTE)][dark][1:], 16)
    nudge = index // len(_PALETTE)
    return f"#{base ^ nudge:06x}"


def pair_colours(names: Sequence[str], partners: Sequence[str]) -> tuple[str, ...]:
    """All names, ordered so that `colour` gives the i-th of `partners` the colour of the i-th of
    `names`, but for an invisible difference."""
    filler = (f"({i})" for i in range(-len(names) % len(_PALETTE)))
    return (*names, *filler, *partners)


def shape(series: Series, labels: Mapping[Series, str]) -> str:
    """A series' marker, an SVG path in a square from -1 to 1: the indexes of one store share its
    colour and differ in the marker."""
    return SHAPES[list(labels).index(series) % len(SHAPES)]


def dash(series: Series, labels: Mapping[Series, str]) -> list[int]:
    """Line dashes, which distinguish the indexes and lanes of one store."""
    own = [other for other in labels if other.store == series.store]
    return _DASHES[own.index(series) % len(_DASHES)]


def variables(stores: Sequence[str], dark: bool) -> dict[str, str]:
    """Style sheet variables: '--s0' … for the stores, '--ink' … for the rest."""
    named = {f"--{name}": pair[dark] for name, pair in INK.items()}
    return named | {f"--s{i}": colour(store, stores, dark) for i, store in enumerate(stores)}


def variable_of(stores: Sequence[str]) -> dict[str, str]:
    """Colour of a light drawing → its variable."""
    return {value: name for name, value in variables(stores, dark=False).items()}
