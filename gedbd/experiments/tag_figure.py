"""A figure of the tag network: its most frequent tags, coloured by community."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox
from scipy.sparse.csgraph import shortest_path
from sklearn.cluster import AgglomerativeClustering
from sklearn.manifold import smacof

from gedbd.encoders.node2vec import TagNetwork
from gedbd.evaluation.figures import DARK_GREY, DUPLICATE, GREY, SERIES

CAPTION = "Tags of the training documents: area: number of documents; lines: tags that share many; colour: community"
EDGES_PER_TAG = 3
NEAR = 2  # average number of edges between tags of a community
LARGEST_NODE = 900  # square points
MAX_BARS = 30
MAX_ISOLATED = 8  # named in the figure
# Colours of the largest communities; other tags are grey.
COLOURS = SERIES[:-1]

Positions = dict[int, tuple[float, float]]


def tag_network(network: TagNetwork, max_tags: int = 150) -> Figure:
    """Draws the most frequent tags of a network; without edges, bars of their counts.

    The area of a node is its number of documents, and its colour is its community. Layout and lines use only the
    strongest edges of each tag, as otherwise all tags would be close. Overlapping labels of rarer tags are left out.
    """
    frequent = np.argsort(-network.counts, kind="stable")[:max_tags]
    tags = np.sort(frequent)
    weights = strongest_edges(network, tags)
    connected = weights.any(axis=0)
    isolated = [tag for tag in frequent if tag not in set(tags[connected])]
    if not connected.any():
        bars = frequent[:MAX_BARS]
        figure = Figure(figsize=(9, 1.4 + 0.2 * len(bars)), layout="constrained")
        axis = figure.subplots()
        axis.barh([network.tags[tag] for tag in bars], network.counts[bars], color=DUPLICATE)
        axis.invert_yaxis()
        axis.tick_params(axis="y", labelsize=8)
        axis.set(title=f"No edge among {len(network.tags):,} tags; the most frequent", xlabel="documents")
        return figure
    tags = tags[connected]
    weights = np.ascontiguousarray(weights[connected][:, connected])
    # Numbers of edges between tags; those that no path connects are as far apart as the farthest connected ones.
    distances: np.ndarray = shortest_path(weights > 0, unweighted=True)
    distances = np.where(np.isinf(distances), distances[np.isfinite(distances)].max(), distances)
    figure = Figure(figsize=(11, 8.5))
    axis = figure.subplots(gridspec_kw={"left": 0.01, "right": 0.99, "bottom": 0.035, "top": 0.935})
    points, _ = smacof(distances, n_components=2, n_init=1, random_state=0, normalized_stress=False)
    positions = {int(tag): (float(x), float(y)) for tag, (x, y) in zip(tags, points, strict=True)}
    colours = community_colours(tags, distances)
    for row, column in zip(*np.nonzero(np.triu(weights)), strict=True):
        first, second = int(tags[row]), int(tags[column])
        same_community = colours.get(first) == colours.get(second)
        colour = colours.get(first, GREY) if same_community else GREY
        x, y = zip(positions[first], positions[second], strict=True)
        axis.plot(x, y, color=colour, alpha=0.4, linewidth=0.6 + 4 * weights[row, column], zorder=1)
    nodes = list(positions)
    area = LARGEST_NODE * network.counts[nodes] / network.counts[nodes].max()
    node_colours = [colours.get(node, GREY) for node in nodes]
    points = np.array(list(positions.values()))
    axis.scatter(points[:, 0], points[:, 1], s=area.clip(14), c=node_colours, edgecolors="white", zorder=2)
    axis.set_title(f"Tags that occur together: the {len(frequent):,} most frequent of {len(network.tags):,}")
    axis.set_axis_off()
    axis.margins(0.06)
    _draw_labels(axis, network, positions, colours)
    if isolated:
        more = f" and {len(isolated) - MAX_ISOLATED} more" if len(isolated) > MAX_ISOLATED else ""
        names = ", ".join(network.tags[tag] for tag in isolated[:MAX_ISOLATED])
        figure.text(0.01, 0.012, f"not shown, without an edge to the others: {names}{more}", fontsize=8, color=GREY)
    return figure


def strongest_edges(network: TagNetwork, tags: np.ndarray) -> np.ndarray:
    """The weights ``(n, n)`` of the strongest edges of each tag; others are 0.

    The tags ``(n,)`` are in ascending order.
    """
    weights = network.weights[tags][:, tags].toarray()
    # Columns of the strongest edges of each tag, the first ones among ties.
    order = np.argsort(-weights, axis=1, kind="stable")[:, :EDGES_PER_TAG]
    kept = np.zeros_like(weights)
    np.put_along_axis(kept, order, np.take_along_axis(weights, order, axis=1), axis=1)
    strongest: np.ndarray = np.maximum(kept, kept.T)
    return strongest


def community_colours(tags: np.ndarray, distances: np.ndarray) -> dict[int, str]:
    """The colours of the tags in the largest communities; ties are broken by the first tag."""
    clustering = AgglomerativeClustering(
        n_clusters=None, distance_threshold=NEAR, metric="precomputed", linkage="average"
    )
    labels = clustering.fit_predict(distances)
    communities = [tags[labels == label].tolist() for label in np.unique(labels)]
    communities.sort(key=lambda members: (-len(members), min(members)))
    return {tag: colour for members, colour in zip(communities, COLOURS, strict=False) for tag in members}


def _draw_labels(axis: Axes, network: TagNetwork, positions: Positions, colours: dict[int, str]) -> None:
    """Draws labels, the most frequent first, at, above or below their tags; leaves out those that would overlap."""
    halo = [withStroke(linewidth=2.5, foreground="white")]
    axis.autoscale_view()
    highest = max(network.counts[list(positions)])
    drawn: list[Bbox] = []
    for node in sorted(positions, key=lambda node: -network.counts[node]):
        size = 7 + 5 * float(np.sqrt(network.counts[node] / highest))
        for shift in (0.0, size, -size):
            label = axis.annotate(
                network.tags[node],
                positions[node],
                (0, shift),
                textcoords="offset points",
                ha="center",
                va="center",
                fontsize=size,
                color=colours.get(node, DARK_GREY),
                path_effects=halo,
                parse_math=False,
            )
            box = label.get_window_extent()
            if not any(box.overlaps(other) for other in drawn):
                drawn.append(box)
                break
            label.remove()
