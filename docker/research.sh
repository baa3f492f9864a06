#!/usr/bin/env bash
# Submits the job of a trial federation, waits for it, and shows what came of it.
#   research.sh FOLDER           as trial.sh made it
set -euo pipefail
folder=${1:?expected a folder}
lead=$folder/provisioned/fedannot/prod_00/lead@research.org

# A job starts with the sites that are there.
until nvflare system status --startup-kit "$lead" --format json | python3 -c '
import json, sys
sites = (json.load(sys.stdin).get("data") or {}).get("clients", [])
print(f"{len(sites)} of 6 sites are there.")
sys.exit(len(sites) < 6)'; do sleep 5; done
job=$(nvflare job submit -j "$folder/job" --startup-kit "$lead" --format json |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["data"]["job_id"])')
nvflare job monitor "$job" --timeout 3600 --startup-kit "$lead"
nvflare job download "$job" -o "$folder/results" --startup-kit "$lead"
fedannot show "$folder/results/$job" --out "$folder/shown"
