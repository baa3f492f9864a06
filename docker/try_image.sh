#!/usr/bin/env bash
# Builds the image with Debian's buildah, without an engine, and tries a site's kit in it. As root. Ends within an hour.
#   try_image.sh FOLDER                          a new folder for everything that is written, images too
#   try_image.sh FOLDER debootstrap [ARGUMENT…]  where no registry can be reached: from Debian's packages
#   try_image.sh FOLDER BASE [ARGUMENT…]         from another base; arguments are those of `buildah build`
# STORAGE_DRIVER=vfs where overlay cannot be mounted. The commands `fedannot` and `nvflare` must be on the path.
set -euo pipefail
folder=$(realpath -m "${1:?expected a new folder}") base=${2:-python:3.11-slim}
[ ! -e "$folder" ] || { echo "$folder exists already." >&2; exit 2; }
for command in buildah fedannot nvflare; do
  command -v "$command" > /dev/null || { echo "$command is not installed." >&2; exit 2; }
done
source=$(realpath "$(dirname "$0")/..")
mkdir -p "$folder/kits"
export BUILDAH_ISOLATION=chroot
images() { buildah --root "$folder/images" --runroot "$folder/run" --storage-driver "${STORAGE_DRIVER:-overlay}" "$@"; }
stop() {
  status=$?
  trap - EXIT
  images rm --all > /dev/null 2>&1 || true
  [ $status = 0 ] && echo "Image: everything as expected; it lies in $folder/images." || echo "Image: failed." >&2
  exit $status
}
trap stop EXIT

if [ "$base" = debootstrap ]; then
  base=localhost/debian-python
  timeout 900 debootstrap --variant=minbase --include=python3,python3-pip,python3-venv,ca-certificates bookworm \
    "$folder/debian" > "$folder/debootstrap.out"
  made=$(images from scratch)
  images add "$made" "$folder/debian" / > /dev/null
  # Debian keeps pip from its own folders; here there is nothing else. NVFlare looks for Python where
  # python:slim has it, the check of a kit where the packages are.
  images config --env PIP_BREAK_SYSTEM_PACKAGES=1 --env PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin "$made"
  images run "$made" -- ln -s /usr/bin/python3 /usr/local/bin/python3
  images commit "$made" "$base" > /dev/null
  images rm "$made" > /dev/null
fi
timeout 3000 buildah --root "$folder/images" --runroot "$folder/run" --storage-driver "${STORAGE_DRIVER:-overlay}" \
  build --layers=false --file "$source/docker/Dockerfile" --build-arg BASE="$base" --tag fedannot "${@:3}" "$source"
images images

# A kit, as in the guide: prepared and checked in the container, where its paths are those of the container.
cd "$folder/kits"
fedannot deploy configs site_configs > /dev/null
nvflare provision -p site_configs/project.yml -w provisioned > provision.out
kit=$folder/kits/provisioned/fedannot/prod_00/hospital-1
container=$(images from fedannot)
inside() { images run --user "$(id -u):$(id -g)" --volume "$kit:/kit" "$container" -- "$@"; }
[ "$(images run "$container" -- id -u)" != 0 ] || { echo "The image runs as root." >&2; exit 1; }
inside fedannot --version
inside fedannot data phantom --sites 1 --images 6 --test-images 1 --out /kit/data > /dev/null
sed -i "s#^datalist: .*#datalist: /kit/data/site-1/datalist.json#" "$kit/data/site-1/data.yaml"
not_started() { # WHAT: the image's own command ends and says this
  if inside timeout 60 bash /kit/startup/sub_start.sh --once > start.out 2>&1; then return 1; fi
  grep "$1" start.out
}
not_started "approved jobs: any job runs here"
inside fedannot deploy prepare /kit --data /kit/data/site-1/data.yaml > /dev/null
inside fedannot deploy check /kit | tee check.out || true
# No server runs here, which is a warning alone.
grep -q "Ready to join" check.out
mv "$kit/local/privacy.json" privacy.json
not_started "outbound filter"
mv privacy.json "$kit/local/privacy.json"
# A whole kit goes on and looks for its server.
inside timeout 20 bash /kit/startup/sub_start.sh --once > start.out 2>&1 || [ $? = 124 ]
! grep "does not start" start.out
