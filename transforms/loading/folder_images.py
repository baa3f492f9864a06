"""The images of a folder for a bundle: what cannot be used is named and left out, labels are written beside their file.

A bundle carries a copy of this module and of those that it imports, so that it reads what import, check and run read.
"""

import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from monai.config import KeysCollection
from monai.transforms import MapTransform
from torch.utils.data import IterableDataset, get_worker_info

FILE = "file"


class UsableImages(IterableDataset[dict[str, Any]]):
    """The prepared images of a folder, in the order of their files; what cannot be used is named at once.

    Args:
        files: paths of the images; hidden files, which some systems write beside others, are named and left out.
        prepare: turns ``{key: path}`` into ``{key: image}``.
        key: of the image.

    Attributes:
        refused: the reasons for files that cannot be used, as far as the images were read.
        used: number of the others.
    """

    def __init__(self, files: Sequence[str], prepare: Callable[[dict[str, Any]], dict[str, Any]], key: str) -> None:
        self.files, self.prepare, self.key = tuple(files), prepare, key
        self.refused: list[str] = []
        self.used = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the usable images, each with its path as ``file``.

        Raises:
            RuntimeError: in a worker process, whose refusals nobody would learn of.
        """
        if get_worker_info() is not None:
            raise RuntimeError("Expected num_workers = 0, as refused files are counted in this process.")
        self.refused, self.used = [], 0
        for file in self.files:
            if Path(file).name.startswith("."):
                self._say(f"{file}: left out, it is a hidden file.")
                continue
            try:
                item = self._prepared(file)
            except _UnusableError as error:
                self.refused.append(str(error))
                self._say(str(error))
            else:
                self.used += 1
                yield item

    def finish(self) -> None:
        """End the program with an error if a file was refused, or none was used.

        Raises:
            SystemExit: with the number of refused files.
        """
        if self.refused or not self.used:
            total = len(self.refused) + self.used
            sys.exit(
                "\n".join([f"{len(self.refused)} of {total} images were refused, {self.used} used.", *self.refused])
            )

    def _prepared(self, file: str) -> dict[str, Any]:
        try:
            item = self.prepare({self.key: file})
        except (OSError, ValueError, RuntimeError) as error:
            # MONAI wraps what a transform raises.
            cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ is not None else error
            reason = str(cause).replace("\n", " ")
            raise _UnusableError(reason if file in reason else f"{file}: {reason}") from error
        if not bool(torch.isfinite(item[self.key]).all()):
            raise _UnusableError(f"{file}: found intensities that are not finite; expected numbers. Export it again.")
        return {**item, FILE: file}

    @staticmethod
    def _say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class _UnusableError(Exception):
    """A file cannot be used; says which and why."""


class WriteLabelsd(MapTransform):  # type: ignore[misc]
    """Write labels ``(1, I, J, K)`` where the voxels of their image's file lie, for whatever reads both.

    Args:
        keys: of the labels, in any order of the file's axes, with their affine in millimetres.
        output_dir: folder of the results, made if need be.
        postfix: is added to the file's name.
    """

    def __init__(self, keys: KeysCollection, output_dir: str, postfix: str) -> None:
        super().__init__(keys)
        self.folder, self.postfix = Path(output_dir), postfix

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Write ``NAME_POSTFIX.nii.gz`` and return the data as they are.

        Raises:
            DataError: if the image's file can no longer be read.
        """
        # Pictures need no nibabel.
        from .volume_files import Volume, in_order_of, write_labels_like  # noqa: PLC0415

        result = dict(data)
        self.folder.mkdir(parents=True, exist_ok=True)
        for key in self.key_iterator(result):
            labels, like = result[key], Path(result[FILE])
            classes = labels.as_tensor()[0].round().to(torch.uint8).cpu().numpy()
            lying = in_order_of(Volume(classes, np.asarray(labels.affine, dtype=np.float64)), like)
            name = like.name[: -len("".join(like.suffixes[-2:]))] if like.name.lower().endswith(".gz") else like.stem
            write_labels_like(self.folder / f"{name}_{self.postfix}.nii.gz", lying, like)
        return result
