#!/usr/bin/env bash
# Two services share one limit on one Redis; then Redis dies, and comes back.
# Needs curl, and redis-server or valkey-server. Everything it starts, it ends.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; wait 2>/dev/null; rm -rf "$folder"' EXIT

if [ -z "${TOLLKEEPER:-}" ]; then
  cargo build --quiet --release --manifest-path "$here/../../Cargo.toml"
  TOLLKEEPER="$here/../../target/release/tollkeeper"
fi
server=$(command -v redis-server || command -v valkey-server) || {
  echo "this example needs redis-server or valkey-server" >&2
  exit 2
}

start_redis() {
  "$server" --port 0 --unixsocket "$folder/redis.sock" --save '' --appendonly no \
    > "$folder/redis.log" &
  redis=$!
}

# Waits until a command succeeds, for at most half a minute.
wait_until() { # what command
  for _ in $(seq 1500); do
    if "${@:2}"; then return; fi
    sleep 0.02
  done
  echo "not within half a minute: $1" >&2
  cat "$folder"/*.log >&2
  exit 1
}

is_up() { curl -s "$1/readyz" | grep -q '"store":"up"'; }

# Starts a service and puts its address into the variable of that name.
start_service() {
  REDIS_URL="redis+unix://$folder/redis.sock" \
    "$TOLLKEEPER" serve -c "$here/tollkeeper.yaml" --listen 127.0.0.1:0 \
    > "$folder/$1.out" 2> "$folder/$1.log" &
  wait_until "service $1 starts" grep -qs 'http   ' "$folder/$1.out"
  declare -g "$1=$(sed -n 's|^  http   \(http://[^ ]*\).*|\1|p' "$folder/$1.out")"
}

# Asks the services in turn, and shows who decided what.
ask() { # key times
  for nth in $(seq "$2"); do
    if [ $((nth % 2)) = 1 ]; then name=one url=$one; else name=two url=$two; fi
    answer=$(curl -s "$url/v1/check" -d "{\"rule\":\"api\",\"key\":\"$1\"}")
    field() { sed "s/.*\"$1\":\"\{0,1\}\([a-z0-9_]*\).*/\1/" <<< "${answer%%\"limits\"*}"; }
    case $(field allowed) in true) told=allowed ;; *) told=denied ;; esac
    printf '  %2d  asked %s  %-8s remaining %-3s by the %s\n' \
      "$nth" "$name" "$told" "$(field remaining)" "$(field source)"
  done
}

# Waits until both services are answered by Redis.
wait_for_store() {
  for url in "$one" "$two"; do
    wait_until "$url is answered by Redis" is_up "$url"
  done
}

start_redis
start_service one
start_service two
wait_for_store
echo "Two services on one Redis, a limit of ten an hour:"
ask alice 12
kill -9 "$redis"
wait "$redis" 2> /dev/null || true
echo "Redis is dead. Alice has used up her limit, and both remember; Bob has half of his at each:"
ask alice 2
ask bob 12
start_redis
wait_for_store
echo "Redis is back, empty, and decides again:"
ask bob 2
