#!/usr/bin/env bash
# Applies an overlay to a new kind cluster, has a call held and woken there, and deletes the cluster.
# It needs kind, kubectl, a container engine, and the image of `make image`.
set -euo pipefail
cd "$(dirname "$0")"
overlay=${1:-single}
archive=../../build/image/circadia.tar
name=circadia-try
[ -d "overlays/$overlay" ] || { echo "usage: $0 single|cluster" >&2; exit 2; }
[ -f "$archive" ] || { echo "there is no $archive; run \`make image\`" >&2; exit 2; }

KUBECONFIG=$(mktemp)
export KUBECONFIG
finish() {
  status=$?
  if [ $status != 0 ]; then
    kubectl --namespace circadia get pods,events || true
  fi
  kind delete cluster --name "$name"
  rm -f "$KUBECONFIG"
  exit $status
}
trap finish EXIT
kind create cluster --name "$name"
kind load image-archive "$archive" --name "$name"

in_namespace() { kubectl --namespace circadia "$@"; }
kubectl apply --filename base/namespace.yaml
secret=(
  --from-literal=CIRCADIA_ADMIN_TOKEN="$(openssl rand -hex 32)"
  --from-literal=METRICS_TOKEN="$(openssl rand -hex 32)"
)
provider_key=(--from-literal=OPENAI_API_KEY=any)
if [ "$overlay" = cluster ]; then
  password=$(openssl rand -hex 16)
  kubectl --namespace default run postgres --image docker.io/library/postgres:18 --port 5432 --expose \
    --env POSTGRES_USER=circadia --env POSTGRES_DB=circadia --env POSTGRES_PASSWORD="$password"
  in_namespace create secret generic circadia-database \
    --from-literal=PGHOST=postgres.default --from-literal=PGDATABASE=circadia \
    --from-literal=PGUSER=circadia --from-literal=PGPASSWORD="$password"
  for role in gateway worker; do
    in_namespace create secret generic "circadia-$role" "${provider_key[@]}"
  done
else
  secret+=("${provider_key[@]}")
fi
in_namespace create secret generic circadia "${secret[@]}"
kubectl kustomize "overlays/$overlay" | sed 's#https://api.openai.com/v1#http://provider:9000/v1#' \
  | kubectl apply --filename - --filename try/provider.yaml
in_namespace wait --for condition=Ready pod/provider --timeout 300s
for each in $(in_namespace get deployments,statefulsets --output name); do
  in_namespace rollout status "$each" --timeout 300s
done

# The call goes through the Service. The agent is put to sleep through one gateway, and woken through another.
read -r -a gateways <<<"$(in_namespace get pods --selector app.kubernetes.io/component=gateway --output name | xargs)"
first=${gateways[0]}
last=${gateways[-1]}
token=$(in_namespace exec "$first" -- circadia agents add demo --json | sed -n 's/.*"token": "\(.*\)".*/\1/p')
in_namespace exec "$first" -- circadia sleep demo
call='
import sys, urllib.request
headers = {"authorization": "Bearer " + sys.argv[1], "content-type": "application/json"}
body = b"""{"model": "small", "messages": [{"role": "user", "content": "Good morning."}]}"""
request = urllib.request.Request("http://circadia:4114/llm/openai/v1/chat/completions", body, headers)
print(urllib.request.urlopen(request, timeout=300).read().decode())
'
answer=$(mktemp)
in_namespace exec provider -- python3 -c "$call" "$token" >"$answer" &
for _ in $(seq 60); do
  holds=$(in_namespace exec "$first" -- circadia holds --json)
  if grep -Eq '"total(_elsewhere)?": 1' <<<"$holds"; then break; fi
  sleep 1
done
grep -E '"total(_elsewhere)?": 1' <<<"$holds" || { echo "the call was not held: $holds" >&2; exit 1; }
in_namespace exec "$last" -- circadia wake demo
wait $!
grep 'Good morning' "$answer"
echo "$overlay: a call was held, woken and answered"
