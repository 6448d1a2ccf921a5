#!/usr/bin/env bash
# An axum app with one layer: Bob may read two reports a minute, Alice four, a stranger none.
# Needs curl. Everything it starts, it ends.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; wait 2>/dev/null; rm -rf "$folder"' EXIT

if [ -z "${EXAMPLE:-}" ]; then
  cargo build --quiet --manifest-path "$here/Cargo.toml" --target-dir "$here/../../target"
  EXAMPLE="$here/../../target/debug/example-axum"
fi
"$EXAMPLE" 127.0.0.1:0 "$here/tollkeeper.yaml" > "$folder/out" 2>&1 &
until grep -q 'listening on' "$folder/out"; do
  kill -0 $! 2> /dev/null || { cat "$folder/out" >&2; exit 1; }
  sleep 0.02
done
url=$(sed -n 's/^listening on //p' "$folder/out")

# Reads five reports and shows the answers; they must be the ones that are expected.
read_reports() { # name token expected
  told=""
  for nth in 1 2 3 4 5; do
    told="$told $(curl -s -o "$folder/body" -w '%{http_code}' -H "authorization: Bearer $2" "$url/reports/$nth")"
  done
  echo "$1:$told"
  [ "$told" = " $3" ] || { echo "expected $3" >&2; exit 1; }
  if [ "${told##* }" != 200 ]; then
    sed 's/$/\n/' "$folder/body"
  fi
}

read_reports Bob bobs-token "200 200 429 429 429"
read_reports Alice alices-token "200 200 200 200 429"
read_reports "A stranger" nothing "429 429 429 429 429"
curl -s -i "$url/"
