"""Run the job in NVFlare's simulator, a process for each site: python jobs/fedgp/job.py"""

from pathlib import Path

from nvflare.recipe import SimEnv

import fedannot

if __name__ == "__main__":
    fedannot.recipe(Path(__file__).parent).execute(SimEnv(num_clients=4, workspace_root="runs/simulator"))
