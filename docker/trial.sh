#!/usr/bin/env bash
# Makes a trial federation on this machine: startup kits of a server and six sites, generated data, prepared kits, and a
# job. With six sites `auto` can tell who draws how. What is there already is kept.
#   trial.sh FOLDER SERVER       SERVER is the host name under which the sites reach the server
set -euo pipefail
folder=${1:?expected a folder}
server=${2:?expected the host name of the server}
kits=$folder/provisioned/fedannot/prod_00
[ -f "$folder/job/meta.json" ] && echo "$folder is ready." && exit 0

[ -d "$folder/site_configs" ] || fedannot deploy configs "$folder/site_configs"
sed -i "s/name: localhost/name: $server/" "$folder/site_configs/project.yml"
for i in 6 5 4; do
  grep -q "name: hospital-$i," "$folder/site_configs/project.yml" ||
    sed -i "/name: hospital-3/a\\  - {name: hospital-$i, type: client, org: hospital_$i}" "$folder/site_configs/project.yml"
done
[ -d "$kits" ] || (umask 077; nvflare provision -p "$folder/site_configs/project.yml" -w "$folder/provisioned")
[ -d "$folder/data" ] ||
  fedannot data phantom --task lesions2d --sites 6 --noise "M(25,-25,10,0.34)" --exact --stratified 0.5 \
    --out "$folder/data"

fedannot deploy prepare "$kits/$server"
for i in 1 2 3 4 5 6; do
  sed "s#^datalist: .*#datalist: $folder/data/site-$i/datalist.json#" "$folder/data/site-$i/data.yaml" \
    > "$folder/hospital-$i.yaml"
  fedannot deploy prepare "$kits/hospital-$i" --data "$folder/hospital-$i.yaml"
done
sites=hospital-1,hospital-2,hospital-3,hospital-4,hospital-5,hospital-6
fedannot deploy job auto --sites "$sites" --like "$folder/hospital-1.yaml" --set rounds=8 --out "$folder/job"
