#!/usr/bin/env bash
# Caddy asks Tollkeeper about each request: three a minute pass, the others hear when to come back.
# Needs curl, python3 for the app, and caddy. Everything it starts, it ends.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"
caddy=$(find_program caddy)

start_app
start_tollkeeper
configure Caddyfile
HOME="$folder" XDG_CONFIG_HOME="$folder" XDG_DATA_HOME="$folder" \
  "$caddy" run --adapter caddyfile --config "$folder/Caddyfile" 2> "$folder/caddy.log" &
wait_for caddy "http://$front/"
show
