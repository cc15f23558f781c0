"""A namespace as text and as a picture: its flow, and its keys as a tree."""

import re
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Dict, Iterator, List, Optional, TextIO, Tuple, Union
from xml.etree import ElementTree

from tensorkv.client import Client
from tensorkv.kvstore import KVStore

_COLUMNS = ("Key", "Shape", "DType", "Bytes", "State", "Version", "Rule")
_RIGHT = {"Bytes", "State", "Version"}
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def print_summary(
    store: Union[Client, KVStore], file: Optional[TextIO] = None
) -> None:
    """Prints what the namespace of `store` does and has, a line per key.

    Keys are a tree by the parts of their names, which end with "." or "/":
    "encoder.0.weight" is weight in 0. in encoder. Sizes of a group are those
    of all keys in it. The first line has the way of a contribution: workers,
    rounds, rules by key pattern, values. `file`: standard output unless given.
    Errors: those of `describe_namespace`.
    """
    flow, tree = _look(store)
    lines = [_row(group, depth) for group, depth in tree.walk()]
    widths = [max(map(len, column)) for column in zip(_COLUMNS, *lines)]

    def text(line):
        cells = (
            cell.rjust(width) if name in _RIGHT else cell.ljust(width)
            for name, cell, width in zip(_COLUMNS, line, widths)
        )
        return "  ".join(cells).rstrip()

    print(" -> ".join(f"[{', '.join(box)}]" for box in flow), file=file)
    print(text(_COLUMNS), file=file)
    print("=" * (sum(widths) + 2 * len(widths) - 2), file=file)
    for line in lines:
        print(text(line), file=file)


def plot_store(
    store: Union[Client, KVStore],
    path: Union[None, str, "PathLike[str]"] = None,
) -> str:
    """Draws the namespace of `store` as SVG, which it returns.

    Boxes show the way of a contribution: workers, rounds, rule, value. Below
    is the tree of `print_summary`. Notebooks show it by
    `IPython.display.SVG(tensorkv.plot_store(kv))`. Colours follow the reader's
    light or dark scheme. `path`: a file to write it to as well. Errors: those
    of `describe_namespace`, and OSError.
    """
    flow, tree = _look(store)
    svg = _draw(flow, [(*each, _row(*each)) for each in tree.walk()])
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(svg)
    return svg


@dataclass
class _Group:
    """Keys whose names begin alike, or one key."""

    name: str
    status: Optional[Dict[str, Any]] = None
    groups: Dict[str, "_Group"] = field(default_factory=dict)
    num_keys: int = 0
    value_bytes: int = 0
    state_bytes: int = 0

    def add(self, status: Dict[str, Any]) -> None:
        *parts, leaf = re.split(r"(?<=[./])", status["key"])
        group = self
        group._count(status)
        for part in parts:
            group = group.groups.setdefault(part, _Group(part))
            group._count(status)
        # No group has the name: those end with a separator, or are not empty.
        key = group.groups.setdefault(leaf + "\0", _Group(leaf, status))
        key._count(status)

    def _count(self, status: Dict[str, Any]) -> None:
        self.num_keys += 1
        self.value_bytes += status["value_bytes"]
        self.state_bytes += status["state_bytes"]

    def walk(self) -> Iterator[Tuple["_Group", int]]:
        """All groups and keys with their depths, from the top."""
        rest = [(group, 0) for group in reversed(self.groups.values())]
        while rest:
            group, depth = rest.pop()
            yield group, depth
            rest += [
                (each, depth + 1) for each in reversed(group.groups.values())
            ]


def _look(
    store: Union[Client, KVStore]
) -> Tuple[List[Tuple[str, ...]], _Group]:
    """The boxes of the flow, each with its lines, and the tree of all keys."""
    client = store.client if isinstance(store, KVStore) else store
    status = client.describe_namespace()
    tree = _Group(status["name"])
    for key in client._store.list(""):
        tree.add(key)
    boxes = (
        _workers_box(status),
        _rounds_box(status),
        _rules_box(status),
        _values_box(tree),
    )
    return [tuple(box) for box in boxes], tree


def _first_of(lines: List[str], count: int) -> List[str]:
    """Some of the lines, and how many more there are."""
    rest = len(lines) - count
    return lines[:count] + ([f"and {rest} more"] if rest > 0 else [])


def _end_of(worker: Dict[str, Any]) -> str:
    if worker["is_live"]:
        return ""
    return ", left" if worker["has_left"] else ", lost"


def _workers_box(status: Dict[str, Any]) -> List[str]:
    of_all = f" of {status['num_workers']}" if status["num_workers"] else ""
    workers = [
        f"{worker['name']}: rank {worker['rank']}, step {worker['step']}"
        + _end_of(worker)
        for worker in status["workers"]
    ]
    return [f"{status['live_workers']}{of_all} workers", *_first_of(workers, 3)]


def _rounds_box(status: Dict[str, Any]) -> List[str]:
    if status["mode"] != "sync":
        return [f"{status['mode']} pushes"]
    return [
        f"sync rounds, {status['aggregation']}",
        f"{status['rounds_open']} open, {status['rounds_closed']} closed, "
        f"{status['rounds_failed']} failed",
    ]


def _rules_box(status: Dict[str, Any]) -> List[str]:
    rules = [
        f"{pattern or '*'}: {_cut(rule)}"
        for pattern, rule in status["rules"].items()
    ]
    return _first_of(rules, 4) or ["no rule"]


def _values_box(tree: _Group) -> List[str]:
    return [
        f"{tree.num_keys} keys",
        f"{_size(tree.value_bytes)} of values",
        f"{_size(tree.state_bytes)} of state",
    ]


def _row(group: _Group, depth: int) -> Tuple[str, ...]:
    name = "  " * depth + (group.name or "(empty)")
    sizes = (_size(group.value_bytes), _size(group.state_bytes))
    status = group.status
    if status is None:
        return (name, f"{group.num_keys} keys", "", *sizes, "", "")
    return (
        name,
        "x".join(map(str, status["shape"])) or "scalar",
        status["dtype"],
        *sizes,
        str(status["version"]),
        status["rule"].partition("(")[0],
    )


def _size(num_bytes: int) -> str:
    number: float = num_bytes
    for unit in _UNITS:
        if number < 1024 or unit == _UNITS[-1]:
            break
        number /= 1024
    return f"{number:.4g} {unit}"


def _cut(text: str) -> str:
    return text if len(text) <= 44 else text[:41] + "..."


# --- SVG ---------------------------------------------------------------------

_LINE = 18
_CHARACTER = 7.3  # of the monospaced font below
_MARGIN = 16
_STYLE = """
text { font: 12px ui-monospace, monospace; fill: #1b1f24; white-space: pre; }
.head { font-weight: bold; }
.box { fill: #eef3fb; stroke: #3b6fb6; }
.line { stroke: #3b6fb6; fill: none; }
.group { fill: #5b6572; }
.paper { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e9ed; }
  .box { fill: #1d2a3d; stroke: #7aa7e8; }
  .line { stroke: #7aa7e8; }
  .group { fill: #a3adb9; }
  .paper { fill: #14181d; }
}
"""
# What XML cannot have, though names can.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class _Drawing:
    """An SVG that grows to the right and downwards."""

    def __init__(self):
        self._svg = ElementTree.Element(
            "svg", xmlns="http://www.w3.org/2000/svg"
        )
        self._add("style").text = _STYLE
        self._add("rect", **{"class": "paper"}, width="100%", height="100%")
        self._right = 0.0

    def _add(self, tag: str, **attributes: Any) -> ElementTree.Element:
        values = {
            name: value if isinstance(value, str) else f"{value:g}"
            for name, value in attributes.items()
        }
        return ElementTree.SubElement(self._svg, tag, values)

    def _add_text(self, x: float, y: float, content: str, kind: str) -> None:
        text = self._add("text", x=x, y=y, **{"class": kind})
        text.text = _NOT_XML.sub("\ufffd", content)

    def add_flow(self, boxes: List[Tuple[str, ...]]) -> float:
        """Boxes, with arrows from each to the next; returns where they end."""
        height = _LINE * max(map(len, boxes)) + 12
        x = _MARGIN
        for i, box in enumerate(boxes):
            if i > 0:
                start = f"M {x:g} {_MARGIN + height / 2:g}"
                arrow = f"{start} h 28 m -7 -5 l 7 5 l -7 5"
                self._add("path", **{"class": "line"}, d=arrow)
                x += 28
            width = _CHARACTER * max(map(len, box)) + 20
            place = {"x": x, "y": _MARGIN, "width": width, "height": height}
            self._add("rect", **{"class": "box"}, **place, rx="6")
            for j, content in enumerate(box):
                y = _MARGIN + _LINE * (j + 1)
                self._add_text(x + 10, y, content, "" if j else "head")
            x += width
        self._right = max(self._right, x)
        return _MARGIN + height

    def add_table(
        self, y: float, lines: List[Tuple[str, ...]], kinds: List[str]
    ) -> float:
        """Lines below each other, the first at `y`; returns where they end."""
        widths = [max(map(len, column)) for column in zip(*lines)]
        for line, kind in zip(lines, kinds):
            x = _MARGIN
            for name, cell, width in zip(_COLUMNS, line, widths):
                indent = width - len(cell) if name in _RIGHT else 0
                if cell:
                    self._add_text(x + _CHARACTER * indent, y, cell, kind)
                x += _CHARACTER * (width + 2)
            self._right = max(self._right, x)
            y += _LINE
        return y

    def as_text(self, bottom: float) -> str:
        self._svg.set("width", f"{self._right + _MARGIN:g}")
        self._svg.set("height", f"{bottom:g}")
        self._svg.set("role", "img")
        return ElementTree.tostring(self._svg, encoding="unicode")


def _draw(
    flow: List[Tuple[str, ...]],
    rows: List[Tuple[_Group, int, Tuple[str, ...]]],
) -> str:
    drawing = _Drawing()
    y = drawing.add_flow(flow) + 2 * _LINE
    lines = [_COLUMNS] + [row for _, _, row in rows]
    kinds = ["group" if group.status is None else "" for group, _, _ in rows]
    return drawing.as_text(drawing.add_table(y, lines, ["head"] + kinds))
