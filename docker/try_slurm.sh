#!/usr/bin/env bash
# Tries the guide's order for Slurm on one machine: a Slurm of its own, with accounting, and a federation of a server and
# three sites, each of whose jobs is a Slurm job. As root, with Debian's slurm-wlm, slurmdbd, mariadb-server and munge,
# and with the commands `fedannot` and `nvflare` on the path. Ends within 15 minutes, and stops what it started.
#   try_slurm.sh FOLDER          a new folder for everything that is written
set -euo pipefail
folder=$(realpath -m "${1:?expected a new folder}")
[ ! -e "$folder" ] || { echo "$folder exists already." >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "Slurm's daemons are started as root here." >&2; exit 2; }
for command in munged mariadbd mariadb-install-db mariadb slurmdbd slurmctld slurmd sbatch sacct fedannot nvflare; do
  command -v "$command" > /dev/null || { echo "$command is not installed." >&2; exit 2; }
done
mkdir -p "$folder"/{slurm,spool,state,federation}
deadline=$((SECONDS + 900))
started=()

run() { # NAME COMMAND…: in the background, with its output in a file
  "${@:2}" > "$folder/slurm/$1.out" 2>&1 < /dev/null &
  started+=($!)
}
until_true() { # SECONDS WHAT COMMAND…
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" > /dev/null 2>&1; do
    if [ $SECONDS -ge $end ] || [ $SECONDS -ge $deadline ]; then echo "Waited too long for $what." >&2; return 1; fi
    sleep 1
  done
}
stop() {
  status=$?
  trap - EXIT
  [ -z "${kits:-}" ] || timeout 60 nvflare system shutdown all --force --startup-kit "$kits/admin@coordinator.org" \
    > /dev/null 2>&1 < /dev/null || true
  scancel --state=PENDING,RUNNING --user=root > /dev/null 2>&1 || true
  for ((i = ${#started[@]} - 1; i >= 0; i--)); do kill "${started[$i]}" 2> /dev/null || true; done
  sleep 5
  for pid in "${started[@]}"; do kill -9 "$pid" 2> /dev/null || true; done
  [ $status = 0 ] && echo "Slurm: everything as expected; files are in $folder." || echo "Slurm: failed; see $folder/slurm and $folder/federation." >&2
  exit $status
}
trap stop EXIT
trap 'exit 130' INT TERM

# A Slurm on this machine: the order is that of their dependence.
read -r ctld_port slurmd_port dbd_port sql_port server_port admin_port inner0 inner1 inner2 inner3 < <(python3 -c '
import socket
held = [socket.socket() for _ in range(10)]
for each in held: each.bind(("127.0.0.1", 0))
print(*(each.getsockname()[1] for each in held))')
host=$(hostname -s)
export SLURM_CONF=$folder/slurm/slurm.conf
umask 077
head -c 1024 /dev/urandom > "$folder/slurm/munge.key"
chmod 755 "$folder" "$folder/slurm"
run munged munged --foreground --force --key-file="$folder/slurm/munge.key" --socket="$folder/slurm/munge.socket" \
  --pid-file="$folder/slurm/munged.pid" --log-file="$folder/slurm/munged.log" --seed-file="$folder/slurm/munge.seed"
mariadb-install-db --no-defaults --user=root --datadir="$folder/slurm/mysql" --auth-root-authentication-method=normal \
  > "$folder/slurm/mysql-install.out" 2>&1
run mariadbd mariadbd --no-defaults --user=root --datadir="$folder/slurm/mysql" --socket="$folder/slurm/mysql.socket" \
  --bind-address=127.0.0.1 --port="$sql_port" --pid-file="$folder/slurm/mysql.pid" --innodb-buffer-pool-size=64M
sql() { mariadb --no-defaults --user=root --socket="$folder/slurm/mysql.socket" -e "$1"; }
until_true 60 "the database" sql "SELECT 1"
password=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
sql "CREATE DATABASE slurm; CREATE USER slurm@'%' IDENTIFIED BY '$password'; CREATE USER slurm@localhost IDENTIFIED BY '$password';
  GRANT ALL ON slurm.* TO slurm@'%'; GRANT ALL ON slurm.* TO slurm@localhost;"
cat > "$folder/slurm/slurmdbd.conf" <<END
AuthType=auth/munge
AuthInfo=socket=$folder/slurm/munge.socket
DbdHost=localhost
DbdPort=$dbd_port
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$sql_port
StorageUser=slurm
StoragePass=$password
StorageLoc=slurm
LogFile=$folder/slurm/slurmdbd.log
PidFile=$folder/slurm/slurmdbd.pid
END
memory=$(awk '/MemTotal/ {print int($2 / 1024 * 0.9)}' /proc/meminfo)
cat > "$SLURM_CONF" <<END
ClusterName=trial
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$ctld_port
SlurmdPort=$slurmd_port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/slurm/munge.socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurm/slurmctld.pid
SlurmdPidFile=$folder/slurm/slurmd.pid
SlurmctldLogFile=$folder/slurm/slurmctld.log
SlurmdLogFile=$folder/slurm/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
# The jobs of server and sites at the same time, however few cores there are.
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort=$dbd_port
AccountingStoragePass=$folder/slurm/munge.socket
AccountingStoreFlags=job_comment
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 RealMemory=$memory State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=30 State=UP OverSubscribe=NO
END
run slurmdbd slurmdbd -D
until_true 60 "slurmdbd" sacctmgr -n list cluster
sacctmgr -i -Q add cluster trial > /dev/null 2>&1 || true
run slurmctld slurmctld -D -f "$SLURM_CONF"
until_true 60 "slurmctld" scontrol ping
run slurmd slurmd -D -f "$SLURM_CONF" -N "$host"
until_true 60 "an idle node" sh -c 'sinfo -h -o %T | grep -q idle'
sinfo

# The federation, as in docs/deployment.md.
cd "$folder/federation"
fedannot deploy configs site_configs > /dev/null
sed -i "s/fed_learn_port: .*/fed_learn_port: $server_port/; s/admin_port: .*/admin_port: $admin_port/" site_configs/project.yml
nvflare provision -p site_configs/project.yml -w provisioned > provision.out
kits=$folder/federation/provisioned/fedannot/prod_00
fedannot data phantom --sites 3 --images 6 --test-images 6 --out data > /dev/null
inner=("$inner0" "$inner1" "$inner2" "$inner3")
for i in 0 1 2 3; do
  name=localhost data=test
  [ $i = 0 ] || { name=hospital-$i data=site-$i; }
  sed "s#^datalist: .*#datalist: $PWD/data/$data/datalist.json#" "data/$data/data.yaml" > "$name.yaml"
  [ $i = 0 ] || described=(--data "$name.yaml")
  fedannot deploy prepare "$kits/$name" "${described[@]}" > /dev/null
  [ $i = 0 ] && cp "$name.yaml" "$kits/$name/local/data.yaml"
  cat > "slurm-$name.yaml" <<END
runtime: slurm
job_launcher:
  sandbox: none
  python_path: $(command -v python3)
  parent_host: localhost
  internal_port: ${inner[$i]}
  poll_interval: 2
  setup: |
    export SLURM_CONF=$SLURM_CONF FEDANNOT_THREADS=1
END
  nvflare deploy prepare "$kits/$name" --output "$folder/federation/slurm/$name" --config "slurm-$name.yaml" \
    > "prepare-$name.out"
  # The server is not up yet, and data are of one kit: everything else must be ready.
  fedannot deploy check "$folder/federation/slurm/$name" > "check-$name.out" || true
  ! grep -E "^problem" "check-$name.out" || { echo "The copy of $name is not ready." >&2; exit 1; }
done

# A copy whose gates are gone does not start.
cp -a slurm/hospital-1 opened
python3 - opened/local/resources.json.default <<'END'
import json, sys
values = json.load(open(sys.argv[1]))
values["components"] = [entry for entry in values["components"] if "gate" not in entry["id"]]
json.dump(values, open(sys.argv[1], "w"))
END
if NVFL_WORKSPACE=$PWD/opened timeout 60 bash opened/startup/sub_start.sh --once > opened.out 2>&1; then exit 1; fi
grep "approved jobs: any job runs here" opened.out

export FEDANNOT_THREADS=1
for name in localhost hospital-1 hospital-2 hospital-3; do
  "slurm/$name/startup/start_slurm.sh" > "$name.out" 2>&1 < /dev/null &
  started+=($!)
done
lead=$kits/lead@research.org
all_there() {
  nvflare system status --startup-kit "$lead" --format json < /dev/null | python3 -c '
import json, sys
sys.exit(len((json.load(sys.stdin).get("data") or {}).get("clients", [])) < 3)'
}
until_true 120 "three sites" all_there
fedannot deploy job fedavg --sites hospital-1,hospital-2,hospital-3 --like hospital-1.yaml --out job \
  --set rounds=2 --set training.local_epochs=1 --set "network.features=[4,4,8,8,8,4]" > /dev/null
job=$(nvflare job submit -j job --startup-kit "$lead" --format json < /dev/null |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["data"]["job_id"])')
timeout 400 nvflare job wait "$job" --timeout 360 --startup-kit "$lead" --format json < /dev/null > wait.out || true
nvflare job download "$job" -o results --startup-kit "$lead" > download.out < /dev/null
fedannot show "results/$job" --out shown
sacct --format=JobID,JobName%40,State,ExitCode,Elapsed
grep -q FINISHED:COMPLETED wait.out
completed=$(sacct -n -X --format=State | grep -c COMPLETED)
[ "$completed" -ge 4 ] || { echo "Expected a Slurm job of the server and of each site, but $completed are complete." >&2; exit 1; }
