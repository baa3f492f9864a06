"""The server's view of the global model: its scores on a clean test set, where the server has one."""

import copy
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from ...transforms.errors import DataError
from ...transforms.printable import printable_logger
from ..compatibility import check_compatibility, check_site
from ..data.datalist import REFERENCE, TESTING
from ..data.federation import TEST_FOLDER
from ..data.location import locate_test_data
from ..data.site_data import SiteData, count_cases, load_site_data
from ..data.store_location import participant_store
from ..evaluation.score_records import RoundScores
from ..evaluation.scoring import Scoring
from ..networks.devices import ready_to_compute
from ..settings import RunSettings

_LOGGER = printable_logger(__name__)


class ServerTest:
    """Scores a model on the server's test set; in a hospital federation there is none, and no score.

    Args:
        network: the network to score with; a copy is used.
        settings: the job's settings.
        run_folder: the server's private folder of the run, where an embedded test set is kept.
        config_folder: the server's own configuration folder, which may hold a ``data.yaml`` and says where prepared
            images lie.
    """

    def __init__(self, network: nn.Module, settings: RunSettings, run_folder: Path, config_folder: Path) -> None:
        self._network = ready_to_compute(copy.deepcopy(network))
        self._settings = settings
        self._run_folder = run_folder
        self._config_folder = config_folder
        self._data: dict[bool, SiteData | None] = {}

    def check_data(self) -> None:
        """Check that the test set that the server was given, if any, fits the network, before anybody trains.

        Raises:
            DataError: if it does not, or is not where it is said to be, or the store of prepared images cannot be
                used.
        """
        folder = locate_test_data(self._settings.data, None, self._config_folder, self._run_folder)
        if folder is not None:
            check_compatibility(folder, self._settings, site=TEST_FOLDER)
            participant_store(self._config_folder).open()

    def has_data(self, sites_are_embedded: bool) -> bool:
        """Return whether the server has a test set.

        Args:
            sites_are_embedded: as for :meth:`score`.
        """
        return self._test_data(sites_are_embedded) is not None

    def score(self, params: dict[str, torch.Tensor], sites_are_embedded: bool) -> RoundScores | None:
        """Return the scores, or None if the server has no test set.

        Args:
            params: the global model.
            sites_are_embedded: the sites run on the embedded phantom, so that its test set says something.
        """
        data = self._test_data(sites_are_embedded)
        if data is None:
            return None
        self._network.load_state_dict(params)
        return Scoring.of(self._settings.task).score(self._network, data, self._settings)

    def _test_data(self, sites_are_embedded: bool) -> SiteData | None:
        if sites_are_embedded not in self._data:
            embedded = self._settings.embedded if sites_are_embedded else None
            folder = locate_test_data(self._settings.data, embedded, self._config_folder, self._run_folder)
            self._data[sites_are_embedded] = None if folder is None else self._load(folder)
        return self._data[sites_are_embedded]

    def _load(self, folder: Path) -> SiteData | None:
        check_compatibility(folder, self._settings, site=TEST_FOLDER)
        if count_cases(folder, REFERENCE) and not count_cases(folder, TESTING):
            return None
        return load_site_data(
            folder,
            participant_store(self._config_folder),
            section=TESTING,
            site=TEST_FOLDER,
            consensus=self._settings.training.consensus,
        )

    def reviewed(self, params: Mapping[str, torch.Tensor]) -> tuple[nn.Module, SiteData] | None:
        """Return a network with a model's weights beside the server's reviewed cases; None where it has none.

        They are the list ``reference`` of the data with its test set, which need not have one. What cannot be used does
        not count; the log says why.

        Args:
            params: the model.
        """
        folder = locate_test_data(self._settings.data, None, self._config_folder, self._run_folder)
        if folder is None or not count_cases(folder, REFERENCE):
            return None
        try:
            check_site(folder, self._settings, site=TEST_FOLDER)
            data = load_site_data(
                folder,
                participant_store(self._config_folder),
                section=REFERENCE,
                site=TEST_FOLDER,
                consensus=self._settings.training.consensus,
            )
        except DataError as error:
            _LOGGER.warning("The reviewed cases at the server do not count: %s", error)
            return None
        self._network.load_state_dict(dict(params))
        return self._network, data
