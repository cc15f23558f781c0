"""Progress bars, by tqdm where it is installed."""

from __future__ import annotations

from typing import Any, Iterator, List, Optional


class _NoBar:
    """What stands for a bar where there is none."""

    n = 0

    def update(self, n: float = 1) -> None:
        self.n += n

    def set_postfix(self, **_: Any) -> None:
        pass

    def close(self) -> None:
        pass


def progress_bar(description: str, total: Optional[int], unit: str) -> Any:
    """A bar of tqdm on standard error, or what takes its place."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _NoBar()
    return tqdm(desc=description, total=total, unit=unit)


def with_progress(
    items: List[Any], description: str, shown: bool
) -> Iterator[Any]:
    """The items, with a bar if it is to be shown."""
    if not shown:
        yield from items
        return
    bar = progress_bar(description, len(items), "it")
    try:
        for item in items:
            yield item
            bar.update()
    finally:
        bar.close()
