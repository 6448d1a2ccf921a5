#!/usr/bin/env bash
# Traefik asks Tollkeeper about each request: three a minute pass, the others hear when to come back.
# Needs curl, python3 for the app, and traefik. Everything it starts, it ends.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"
traefik=$(find_program traefik)

start_app
start_tollkeeper
configure dynamic.yaml
(cd "$folder" && exec "$traefik" --entryPoints.web.address="$front" \
  --providers.file.filename=dynamic.yaml --global.checkNewVersion=false) > "$folder/traefik.log" 2>&1 &
wait_for traefik "http://$front/"
show
