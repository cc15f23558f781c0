# As much of NumPy as the programs and signatures need: to read all of its own
# types takes longer than the rest of the test.

from typing import Any, Generic, Tuple, TypeVar

_Shape = TypeVar("_Shape")
_DType = TypeVar("_DType")

class float64: ...
class dtype(Generic[_DType]): ...

class ndarray(Generic[_Shape, _DType]):
    @property
    def shape(self) -> Tuple[int, ...]: ...

def zeros(shape: int) -> ndarray[Any, dtype[float64]]: ...
def __getattr__(name: str) -> Any: ...
