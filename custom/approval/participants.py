"""The participants whose startup kits hold policies, and which file makes a folder the kit of one."""

from typing import Literal

Role = Literal["server", "site"]

# In a kit's folder `startup`.
START_FILES: dict[Role, str] = {"server": "fed_server.json", "site": "fed_client.json"}
