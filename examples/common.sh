# What the examples with a proxy share: an app, Tollkeeper, and five requests through the proxy, of
# which three get to the app. Read by their run.sh, which say how the proxy is started.
set -euo pipefail
folder=$(mktemp -d)
chmod 755 "$folder" # a proxy that root starts may work as somebody else
trap 'kill $(jobs -p) 2>/dev/null; wait 2>/dev/null; rm -rf "$folder"' EXIT

# Where everything listens. The files of the examples name the first of each.
front=${FRONT:-127.0.0.1:8000}
limiter=${LIMITER:-127.0.0.1:8080}
app=${APP:-127.0.0.1:9000}
peers="$here/../../target/peers"

fail() {
  echo "$1" >&2
  tail -n 20 "$folder"/*.log >&2
  exit 1
}

# Whatever answers there already would be taken for ours.
for address in "$front" "$limiter" "$app"; do
  if (: < "/dev/tcp/${address%:*}/${address##*:}") 2> /dev/null; then
    echo "$address is taken: move it with FRONT, LIMITER or APP" >&2
    exit 2
  fi
done

# Finds a program on the path, or where `cargo xtask needs` puts it.
find_program() {
  PATH="$PATH:/usr/sbin:$peers" command -v "$1" || {
    echo "this example needs $1: install it, or run cargo xtask needs" >&2
    exit 2
  }
}

# Copies a file of the example with the addresses that are used.
configure() {
  sed -e "s/127\.0\.0\.1:8080/$limiter/" -e "s/127\.0\.0\.1:9000/$app/" \
    -e "s/:8000/:${front##*:}/" "$here/$1" > "$folder/$1"
}

# Waits until somebody answers with 200.
wait_for() { # name url
  for _ in $(seq 500); do
    curl -s -o "$folder/probe" -f "$2" && return
    kill -0 $! 2> /dev/null || break
    sleep 0.02
  done
  fail "$1 does not answer"
}

start_app() {
  mkdir "$folder/site"
  echo "Hello from the app." > "$folder/site/hello"
  python3 -m http.server --bind "${app%:*}" --directory "$folder/site" "${app##*:}" \
    > "$folder/app.log" 2>&1 &
  wait_for "the app" "http://$app/"
}

start_tollkeeper() { # [policy file]
  if [ -z "${TOLLKEEPER:-}" ]; then
    cargo build --quiet --release --manifest-path "$here/../../Cargo.toml" \
      --target-dir "$here/../../target"
    TOLLKEEPER="$here/../../target/release/tollkeeper"
  fi
  "$TOLLKEEPER" serve -c "${1:-$here/tollkeeper.yaml}" --listen "$limiter" \
    > "$folder/tollkeeper.log" 2>&1 &
  wait_for Tollkeeper "http://$limiter/healthz"
}

# Asks five times and shows what came back; ends with an error unless three were let through.
show() {
  told=""
  for nth in 1 2 3 4 5; do
    status=$(curl -s -D "$folder/head" -o "$folder/body" -w '%{http_code}' "http://$front/hello")
    told="$told $status"
    echo "request $nth: $status"
    grep -i -E '^(retry-after|x-ratelimit-remaining|ratelimit):' "$folder/head" | sed 's/^/  /' || true
    sed 's/^/  /' "$folder/body"
    echo
  done
  saw=$(grep -c 'GET /hello' "$folder/app.log")
  echo "The app has seen $saw of them."
  [ "$told" = " 200 200 200 429 429" ] || fail "expected three requests to pass and two to be refused"
  [ "$saw" = 3 ] || fail "expected the app to see three requests"
  grep -q -i '^retry-after: ' "$folder/head" || fail "expected Retry-After"
  grep -q '"error":"rate_limited"' "$folder/body" || fail "expected Tollkeeper's own words"
}
