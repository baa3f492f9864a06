"""Types of NumPy arrays, one name for each dtype that is used throughout."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

# What any number is allowed in, and any floating-point one.
Array = NDArray[Any]
AnyFloats = NDArray[np.floating]

Floats = NDArray[np.float64]
SingleFloats = NDArray[np.float32]
Booleans = NDArray[np.bool_]
# Classes of pixels, as masks hold them, and of images or cases, as losses and tables take them.
Classes = NDArray[np.uint8]
Labels = NDArray[np.int64]
# Positions in another array.
Indices = NDArray[np.intp]
# Numbers of connected components.
Components = NDArray[np.int32]
