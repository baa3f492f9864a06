"""What fedannot adds to NVFlare's provisioning: kits that do not start before they are prepared."""

import json
from pathlib import Path

from nvflare.lighter.ctx import ProvisionContext
from nvflare.lighter.entity import Project
from nvflare.lighter.spec import Builder

from ...custom.data.whole_files import write_text
from ...custom.flare.kit_files import START_CHECK_FILE
from ...custom.flare.kit_policies import START_CHECK


def write_start_check(local: Path) -> Path:
    """Write the file that adds the check at the start to a kit's components, and return it.

    Args:
        local: the kit's folder ``local``.
    """
    file = local / START_CHECK_FILE
    write_text(file, json.dumps({"components": [START_CHECK]}, indent=2) + "\n")
    return file


class StartCheckBuilder(Builder):  # type: ignore[misc]
    """A builder of the project file: server and sites check their kit when they start, from the first start on."""

    def build(self, project: Project, ctx: ProvisionContext) -> None:
        """Write the check into the kits of the server and of the sites."""
        for participant in (project.get_server(), *project.get_clients()):
            if participant is not None:
                write_start_check(Path(ctx.get_local_dir(participant)))
