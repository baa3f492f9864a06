"""Settings of a fingerprint."""

from ..fedavg.settings import FedAvgSettings


class FingerprintSettings(FedAvgSettings):
    """Settings of a fingerprint: those of federated averaging."""

    method: str = "fingerprint"
