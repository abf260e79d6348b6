"""A figure of the tag network: its most frequent tags, coloured by community."""

import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox

from gedbd.encoders.node2vec import TagNetwork
from gedbd.evaluation.figures import DARK_GREY, DUPLICATE, GREY, SERIES

CAPTION = "Tags of the training documents: areas by documents, lines between tags that share many, colours by community"
EDGES_PER_TAG = 3
LARGEST_NODE = 900  # square points
MAX_BARS = 30
MAX_ISOLATED = 8  # that are named
# Of the largest communities; tags of the others are grey.
COLOURS = SERIES[:-1]
RARE_LABEL = DARK_GREY

Positions = dict[int, tuple[float, float]]


def tag_network(network: TagNetwork, max_tags: int = 150, seed: int = 0) -> Figure:
    """Draws the most frequent tags of a network; without any edge, bars of their counts.

    A node's area follows the number of its documents. Colours are communities (Louvain). Layout and lines use each
    tag's strongest edges only: with all of them, every tag is near every other. Labels that would overlap are left out,
    those of rare tags first.

    Args:
        network: The tag network.
        max_tags: The number of tags that are drawn.
        seed: Of the communities.
    """
    frequent = np.argsort(-network.counts, kind="stable")[:max_tags]
    graph = strongest_edges(network, np.sort(frequent))
    isolated = [int(place) for place in frequent if not graph.degree[place]]
    graph.remove_nodes_from(isolated)
    if not len(graph):
        return _bars(network, frequent[:MAX_BARS])
    figure = Figure(figsize=(11, 8.5))
    axis = figure.subplots(gridspec_kw={"left": 0.01, "right": 0.99, "bottom": 0.035, "top": 0.935})
    positions = node_positions(graph)
    colours = community_colours(graph, seed)
    _draw_edges(axis, graph, positions, colours)
    _draw_nodes(axis, network, positions, colours)
    axis.set_title(f"Tags that occur together: the {len(frequent):,} most frequent of {len(network.tags):,}")
    axis.set_axis_off()
    axis.margins(0.06)
    _draw_labels(axis, network, positions, colours)
    if isolated:
        more = f" and {len(isolated) - MAX_ISOLATED} more" if len(isolated) > MAX_ISOLATED else ""
        names = ", ".join(network.tags[place] for place in isolated[:MAX_ISOLATED])
        figure.text(0.01, 0.012, f"not shown, without an edge to the others: {names}{more}", fontsize=8, color=GREY)
    return figure


def strongest_edges(network: TagNetwork, places: np.ndarray) -> nx.Graph:
    """The graph of some tags with each tag's strongest edges among them.

    Args:
        network: The tag network.
        places: Tags in ascending order, which are the graph's nodes.
    """
    inside = network.weights[places][:, places].tocsr()
    graph = nx.Graph()
    graph.add_nodes_from(places.tolist())
    for node, place in enumerate(places.tolist()):
        span = slice(inside.indptr[node], inside.indptr[node + 1])
        weights = inside.data[span]
        for best in np.argsort(-weights, kind="stable")[:EDGES_PER_TAG]:
            neighbour = int(places[inside.indices[span][best]])
            graph.add_edge(place, neighbour, weight=float(weights[best]))
    return graph


def node_positions(graph: nx.Graph) -> Positions:
    """Positions whose distances resemble the numbers of edges between tags (Kamada and Kawai, 1989)."""
    between = {node: dict(lengths) for node, lengths in nx.all_pairs_shortest_path_length(graph)}
    farthest = max(max(lengths.values()) for lengths in between.values())
    # Parts that no edge connects lie beside each other.
    distances = {node: {other: lengths.get(other, farthest) for other in graph} for node, lengths in between.items()}
    found = nx.kamada_kawai_layout(graph, dist=distances)
    return {node: (float(x), float(y)) for node, (x, y) in found.items()}


def community_colours(graph: nx.Graph, seed: int) -> dict[int, str]:
    """The colour of each tag whose community is among the largest."""
    found = nx.community.louvain_communities(graph, weight="weight", seed=seed)
    ordered = sorted(found, key=lambda nodes: (-len(nodes), min(nodes)))
    return {node: colour for nodes, colour in zip(ordered, COLOURS, strict=False) for node in nodes}


def _draw_edges(axis: Axes, graph: nx.Graph, positions: Positions, colours: dict[int, str]) -> None:
    for first, second, weight in graph.edges(data="weight"):
        same = colours.get(first) == colours.get(second)
        colour = colours.get(first, GREY) if same else GREY
        x, y = zip(positions[first], positions[second], strict=True)
        axis.plot(x, y, color=colour, alpha=0.4, linewidth=0.6 + 4 * weight, zorder=1)


def _draw_nodes(axis: Axes, network: TagNetwork, positions: Positions, colours: dict[int, str]) -> None:
    nodes = list(positions)
    area = LARGEST_NODE * network.counts[nodes] / network.counts[nodes].max()
    shown = [colours.get(node, GREY) for node in nodes]
    x, y = np.array(list(positions.values())).T
    axis.scatter(x, y, s=area.clip(14), c=shown, edgecolors="white", zorder=2)


def _draw_labels(axis: Axes, network: TagNetwork, positions: Positions, colours: dict[int, str]) -> None:
    """Labels in the order of frequency, each centred at its tag, above or below it, where it overlaps no other."""
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
                color=colours.get(node, RARE_LABEL),
                path_effects=halo,
                parse_math=False,
            )
            box = label.get_window_extent()
            if not any(box.overlaps(other) for other in drawn):
                drawn.append(box)
                break
            label.remove()


def _bars(network: TagNetwork, places: np.ndarray) -> Figure:
    """The numbers of documents of some tags."""
    figure = Figure(figsize=(9, 1.4 + 0.2 * len(places)), layout="constrained")
    axis = figure.subplots()
    axis.barh([network.tags[place] for place in places], network.counts[places], color=DUPLICATE)
    axis.invert_yaxis()
    axis.tick_params(axis="y", labelsize=8)
    axis.set(title=f"No edge among {len(network.tags):,} tags; the most frequent", xlabel="documents")
    return figure
