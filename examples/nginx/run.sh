#!/usr/bin/env bash
# nginx asks Tollkeeper about each request: three a minute pass, the others hear when to come back.
# Needs curl, python3 for the app, and nginx. Everything it starts, it ends.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../common.sh"
nginx=$(find_program nginx)

start_app
start_tollkeeper
configure nginx.conf
"$nginx" -p "$folder" -c nginx.conf -g 'daemon off; error_log stderr;' 2> "$folder/nginx.log" &
wait_for nginx "http://$front/"
show
