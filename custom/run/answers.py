"""The answers of sites to a task that has no model as its result."""

from collections.abc import Callable
from typing import Any

from ..aggregation.reported_counts import ReportedCounts
from ..outbound.registry import OutboundRegistry
from ..refusals import RefusalCode, RefusalReason
from .transport import Reply


class Answers:
    """Takes answers as they come; one that cannot be used is refused by name with the reason.

    Args:
        task: what the sites were asked for.
        round_number: the round.
        registry: the fields that an answer may hold.
        num_classes: of the network, the length of lists.
        refuse: takes note of a site that is refused, and the reason.

    Attributes:
        by_site: the registered fields of every usable answer.
    """

    def __init__(
        self,
        task: str,
        round_number: int,
        registry: OutboundRegistry,
        num_classes: int,
        refuse: Callable[[str, RefusalReason], None],
    ) -> None:
        self._task = task
        self._round = round_number
        self._registry = registry
        self._num_classes = num_classes
        self._refuse = refuse
        self.by_site: dict[str, dict[str, Any]] = {}

    def receive(self, reply: Reply) -> bool:
        """Take a site's answer; False if it is refused."""
        reason = reply.problem or self._reason(reply)
        if reason is None:
            registered = self._registry.of_task(self._task)
            self.by_site[reply.site] = {name: value for name, value in reply.fields.items() if name in registered}
        else:
            self._refuse(reply.site, reason)
        return reason is None

    def counted(self, claims: ReportedCounts, limit: int) -> dict[str, dict[str, Any]]:
        """Return the usable answers by the sites' names, sorted, with numbers of samples as far as they count."""
        for site, answer in sorted(self.by_site.items()):
            if "num_samples" in answer:
                answer["num_samples"] = min(claims.counted(site, answer["num_samples"], limit), limit)
        return dict(sorted(self.by_site.items()))

    def _reason(self, reply: Reply) -> RefusalReason | None:
        if reply.round_number != self._round:
            rounds = str(reply.round_number), self._round
            return RefusalReason.of(
                RefusalCode.ANSWER_OF_OTHER_ROUND, task=self._task, round=rounds[0], expected=rounds[1]
            )
        if reply.site in self.by_site:
            return RefusalReason.of(RefusalCode.SECOND_ANSWER, task=self._task)
        return self._registry.refusal(self._task, reply.fields, self._num_classes)
