"""Models that wait on disk for their weights, where those follow from what all sites reported."""

import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import torch

from ..data.whole_files import private_file, private_folder


class ModelSpool:
    """One file per site; memory holds one model whatever the number of sites.

    Args:
        folder: made again; nothing else may lie there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, Path] = {}
        self._num_samples: dict[str, int] = {}
        self._mapped: dict[str, dict[str, torch.Tensor]] = {}
        self.remove()
        # A site's model says more of its patients than an average does: for this user alone.
        private_folder(folder)

    def __contains__(self, site: str) -> bool:
        """Return whether the site's model waits."""
        return site in self._files

    def put(self, site: str, params: Mapping[str, torch.Tensor], num_samples: int) -> None:
        """Write a site's model to disk.

        Raises:
            ValueError: if the site's model waits already.
        """
        if site in self._files:
            raise ValueError(f"Expected one model per site, but {site} was added twice.")
        # Numbered: a site's name need not be a file's.
        file = self._folder / f"{len(self._files)}.pt"
        torch.save({name: tensor.detach().cpu() for name, tensor in params.items()}, private_file(file))
        self._files[site], self._num_samples[site] = file, num_samples

    @property
    def sites(self) -> tuple[str, ...]:
        """Whose models wait, sorted."""
        return tuple(sorted(self._files))

    def params(self, site: str) -> dict[str, torch.Tensor]:
        """Return the state dict of a site whose model waits.

        Raises:
            KeyError: if none of the site does.
        """
        params: dict[str, torch.Tensor] = torch.load(self._files[site], map_location="cpu", weights_only=True)
        return params

    def num_samples(self, site: str) -> int:
        """Return how many samples the model of a site was trained on."""
        return self._num_samples[site]

    def mapped(self, site: str) -> dict[str, torch.Tensor]:
        """Return the same with entries that are read from disk when they are used, for a pass over all sites' entries.

        Nothing may be written into them.
        """
        if site not in self._mapped:
            file = self._files[site]
            self._mapped[site] = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
        return self._mapped[site]

    def models(self, *, keep: bool = False) -> Iterator[tuple[str, dict[str, torch.Tensor], int]]:
        """Yield site, state dict and number of samples in sorted order of the sites.

        Args:
            keep: whether the files stay; else each goes once it is read.
        """
        for site in self.sites:
            yield site, self.params(site), self._num_samples[site]
            if not keep:
                self._files[site].unlink()

    def keep_only(self, sites: Collection[str]) -> None:
        """Remove the models of all other sites, and let go of the mapped ones."""
        self._mapped.clear()
        for site in set(self._files) - set(sites):
            self._files.pop(site).unlink()
            del self._num_samples[site]

    def remove(self) -> None:
        """Remove all files."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._files.clear()
        self._mapped.clear()
        self._num_samples.clear()
