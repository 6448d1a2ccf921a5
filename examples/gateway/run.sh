#!/usr/bin/env bash
# Tollkeeper is the proxy itself: three requests a minute pass, the others hear when to come back.
# Needs curl, and python3 for the app. Everything it starts, it ends.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"

start_app
configure tollkeeper.yaml
start_tollkeeper "$folder/tollkeeper.yaml"
wait_for "the gateway" "http://$front/"
show
