"""Routes of a flow graph's edges in a figure: between the boxes where possible, with rounded corners."""

from bisect import bisect_right
from math import ceil, floor

from matplotlib.path import Path

from gedbd.code.semantic_graph import EdgeKind
from gedbd.evaluation.flow_graph_layout import CONTROL_GUTTER, HALF_HEIGHT, ROW_HEIGHT, VARIABLE_GUTTER, Box, Layout

Point = tuple[float, float]

CORNER = 0.09  # inches, radius
LANE = 0.055  # between parallel edges
CLEARANCE = 0.07  # between an edge and a box that it passes
GAP_HEIGHT = ROW_HEIGHT - 2 * HALF_HEIGHT  # between the boxes of two rows
MAX_EDGES = 3_000  # the time to keep edges apart grows with the square of their number
TRACKS = 5  # parallel edges in a gap


class Router:
    """Chooses a route for each edge, and keeps edges of different variables apart.

    Args:
        layout: The places of the boxes.
        num_edges: The number of edges to come; among more than ``MAX_EDGES``, edges may lie on each other.
    """

    def __init__(self, layout: Layout, num_edges: int) -> None:
        self.layout = layout
        self.is_crowd_avoided = num_edges <= MAX_EDGES
        controls = [box.width / 2 for box in layout.boxes if not box.note]
        self.gutter = layout.control_x + max(controls, default=0.0)  # its left end
        count = int((layout.width - self.gutter) / LANE)
        self.lanes = [self.gutter + LANE * number for number in range(count)]
        self.blocked: list[list[int]] = [[] for _ in self.lanes]  # rows in which a lane meets a box
        self.used: list[list[tuple[int, int, int]]] = [[] for _ in self.lanes]  # first and last row, and node of edges
        for box in layout.boxes:
            if box.note:
                self._block(box)

    def _block(self, box: Box) -> None:
        """Marks the lanes that meet a box; boxes come in the order of their rows."""
        first = (box.x - box.width / 2 - CLEARANCE - self.gutter) / LANE
        last = (box.x + box.width / 2 + CLEARANCE - self.gutter) / LANE
        for number in range(max(ceil(first), 0), min(floor(last) + 1, len(self.lanes))):
            self.blocked[number].append(box.row)

    def path(self, first: int, second: int, kind: EdgeKind) -> Path:
        """The route of an edge between two nodes."""
        start = self.layout.boxes[first]
        end = self.layout.boxes[second]
        if kind == EdgeKind.CONTROL:
            return control_path(start, end)
        if kind == EdgeKind.SEQUENTIAL:
            return self._sequential(start, end, first)
        if start.row == end.row:
            return arc_above(start, end)
        return self._data(start, end, first)

    def _sequential(self, start: Box, end: Box, source: int) -> Path:
        """Through the gutter right of the control nodes, then between two rows to the variable."""
        variable = start if start.note else end
        control = end if start.note else start
        below = start.note != ""  # edges leave a variable below it and reach it from above
        sign = 1 if below else -1
        side = (control.x + control.width / 2, control.y + sign * 0.07)
        edge = (variable.x - variable.width / 4, variable.y + sign * HALF_HEIGHT)
        track = edge[1] + sign * GAP_HEIGHT * (0.3 if below else 0.36)
        rows = sorted((start.row, end.row))
        lane = self._free_lane(self.gutter + 0.1, self.gutter + VARIABLE_GUTTER - 0.1, rows, source, self.gutter)
        points = [side, (lane, side[1]), (lane, track), (edge[0], track), edge]
        return rounded(points[::-1] if below else points)

    def _data(self, start: Box, end: Box, source: int) -> Path:
        """From below a variable to above a later one, or from above it to below an earlier one."""
        sign = 1 if end.row > start.row else -1
        first = (start.x + 0.1 * sign, start.y + sign * HALF_HEIGHT)
        last = (end.x + 0.1 * sign, end.y - sign * HALF_HEIGHT)
        share = 0.25 + 0.5 * (source % TRACKS) / (TRACKS - 1)
        leave = first[1] + sign * GAP_HEIGHT * share
        if abs(end.row - start.row) == 1:
            middle = (first[1] + last[1]) / 2
            return curve(first, (first[0], middle), (last[0], middle), last)
        arrive = last[1] - sign * GAP_HEIGHT * share
        rows = sorted((start.row, end.row))
        lane = self._free_lane(self.gutter + VARIABLE_GUTTER - 0.1, self.layout.width, rows, source, first[0], last[0])
        return rounded([first, (first[0], leave), (lane, leave), (lane, arrive), (last[0], arrive), last])

    def _free_lane(self, left: float, right: float, rows: list[int], source: int, *near: float) -> float:
        """The x of a vertical line that meets no box between two rows, nearest to some places."""
        first = max(ceil((left - self.gutter) / LANE), 0)
        last = min(floor((right - self.gutter) / LANE), len(self.lanes) - 1)
        best = min(range(first, last + 1), key=lambda number: self._cost(number, rows, source, near))
        if self.is_crowd_avoided:
            self.used[best].append((rows[0], rows[1], source))
        return next((x for x in near if abs(x - self.lanes[best]) < LANE), self.lanes[best])

    def _cost(self, number: int, rows: list[int], source: int, near: tuple[float, ...]) -> float:
        """Inches of a detour, more where other edges are, and much more where boxes are."""
        blocked = self.blocked[number]
        place = bisect_right(blocked, rows[0])
        is_blocked = place < len(blocked) and blocked[place] < rows[1]
        crowd = sum(other != source and top < rows[1] and rows[0] < bottom for top, bottom, other in self.used[number])
        return 100.0 * is_blocked + 2.0 * crowd + sum(abs(self.lanes[number] - x) for x in near)


def control_path(start: Box, end: Box) -> Path:
    """Straight down to the next row, else an arc at the left that is wider for edges that lead farther."""
    rows = end.row - start.row
    if rows == 1:
        return Path([(start.x, start.y + HALF_HEIGHT), (end.x, end.y - HALF_HEIGHT)], [Path.MOVETO, Path.LINETO])
    first = (start.x - start.width / 2, start.y + 0.07)
    last = (end.x - end.width / 2, end.y - 0.07)
    left = min(first[0], last[0]) - min(0.14 + 0.085 * abs(rows), CONTROL_GUTTER + 0.1)
    return curve(first, (left, first[1]), (left, last[1]), last)


def arc_above(start: Box, end: Box) -> Path:
    """An arc above two boxes of a row."""
    shift = 0.06 if start.x < end.x else -0.06
    height = 0.11 + min(0.03 * abs(start.x - end.x), 0.11)
    first = (start.x + shift, start.y - HALF_HEIGHT)
    last = (end.x - shift, end.y - HALF_HEIGHT)
    return curve(first, (first[0], first[1] - height), (last[0], last[1] - height), last)


def curve(*points: Point) -> Path:
    """A cubic curve: its start, two control points and its end."""
    return Path(points, [Path.MOVETO, *[Path.CURVE4] * 3])


def rounded(points: list[Point]) -> Path:
    """Straight lines through points, with rounded corners."""
    vertices = [points[0]]
    codes = [Path.MOVETO]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        vertices += [_towards(corner, before), corner, _towards(corner, after)]
        codes += [Path.LINETO, Path.CURVE3, Path.CURVE3]
    return Path([*vertices, points[-1]], [*codes, Path.LINETO])


def _towards(corner: Point, other: Point) -> Point:
    """The point before a corner at which its rounding begins."""
    across = other[0] - corner[0]
    down = other[1] - corner[1]
    length = max((across**2 + down**2) ** 0.5, 1e-9)
    share = min(CORNER / length, 0.5)
    return corner[0] + share * across, corner[1] + share * down
