"""The verbs of a Client that are about rows of keys."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Union, overload

from tensorkv import _core
from tensorkv._arrays import all_to_core
from tensorkv._client_arguments import (
    Array,
    KeyList,
    Keys,
    answer,
    as_list,
    at_fields,
    publish_fields,
    step_of,
    weights_of,
    within,
)
from tensorkv._types import At, NDArray, PublishAs, Snapshot
from tensorkv.row_sparse import row_ids_of


class RowVerbs:
    """What tensorkv.Client adds a connection to."""

    _store: _core.Store

    @overload
    def push_rows(
        self,
        key: str,
        row_ids: Array,
        value: Array,
        step: int = 0,
        update_all_rows: bool = False,
        timeout: Optional[float] = None,
        *,
        weight: Optional[float] = None,
    ) -> Optional[int]: ...
    @overload
    def push_rows(
        self,
        key: KeyList,
        row_ids: Sequence[Array],
        value: Sequence[Array],
        step: int = 0,
        update_all_rows: bool = False,
        timeout: Optional[float] = None,
        *,
        weight: Union[None, float, Sequence[float]] = None,
    ) -> List[Optional[int]]: ...
    @overload
    def push_rows(
        self,
        key: Keys,
        row_ids: Any,
        value: Any,
        step: int = 0,
        update_all_rows: bool = False,
        timeout: Optional[float] = None,
        *,
        publish_as: PublishAs,
        weight: Union[None, float, Sequence[float]] = None,
    ) -> Snapshot: ...
    def push_rows(
        self,
        key: Keys,
        row_ids: Any,
        value: Any,
        step: int = 0,
        update_all_rows: bool = False,
        timeout: Optional[float] = None,
        *,
        publish_as: Optional[PublishAs] = None,
        weight: Any = None,
    ) -> Any:
        """Contributes rows of keys of rank 1 or more, by their first index.

        Only the rows named are updated. A row that is named twice gets the sum.
        The cost does not grow with the number of rows that a key has. Of the
        compressions only casts and blocks are for rows, without what they have
        left out before; with others rows go as they are.

        Args:
          row_ids: int32 or int64 of shape [n], in any order, or a list.
          value: of shape [n, ...], a row for each id.
          step: as in `push`.
          update_all_rows: gives those that are not named zeros, so that the
            rule's decays reach them too.
          publish_as: as in `push`.
          weight: as in `push`; it counts for rows that are not named, too.

        Returns:
          As `push`. Errors: also InvalidArgumentError (ROW_OUT_OF_RANGE).
        """
        keys, values = as_list(key, value, "value")
        ids = _ids_of(as_list(key, row_ids, "row_ids")[1])
        arrays, weights = all_to_core(values), weights_of(weight, len(keys))
        wanted = publish_fields(publish_as)
        with within(timeout):
            made = self._store.push_rows(
                keys,
                ids,
                arrays,
                step_of(step),
                update_all_rows,
                weights,
                wanted,
            )
        if publish_as is not None:
            return Snapshot(publish_as.series, **made)
        return answer(key, made or [None] * len(keys))

    @overload
    def pull_rows(
        self,
        key: str,
        row_ids: Array,
        timeout: Optional[float] = None,
        *,
        at: Optional[At] = None,
    ) -> NDArray: ...
    @overload
    def pull_rows(
        self,
        key: KeyList,
        row_ids: Sequence[Array],
        timeout: Optional[float] = None,
        *,
        at: Optional[At] = None,
    ) -> List[NDArray]: ...
    def pull_rows(
        self,
        key: Keys,
        row_ids: Any,
        timeout: Optional[float] = None,
        *,
        at: Optional[At] = None,
    ) -> Any:
        """Reads rows: arrays of shape [n, ...], in the order of the ids.

        Row ids are as in `push_rows`, and so are errors. The rows of one key
        are of one moment, those of different keys perhaps of different ones;
        with `at`, which is as in `pull`, all are of the snapshot.
        """
        keys, row_ids = as_list(key, row_ids, "row_ids")
        ids = _ids_of(row_ids)
        with within(timeout):
            pulled = self._store.pull_rows(keys, ids, at_fields(at))
        return answer(key, pulled)


def _ids_of(row_ids: List[Any]) -> List[Any]:
    """The row ids of each key, as the extension module takes them."""
    return all_to_core(
        [row_ids_of(ids) if isinstance(ids, list) else ids for ids in row_ids]
    )
