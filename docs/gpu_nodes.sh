#!/usr/bin/env bash
# One Ray node per GPU on this machine, for `serve deploy serve_config.yaml`: a set of stages then lies on one GPU.
# usage: gpu_nodes.sh [GPU ...]      e.g. gpu_nodes.sh 0 1; all GPUs that nvidia-smi lists where none is named
# The first GPU's node is the head. With RAY_ADDRESS=host:port every GPU joins that cluster instead. End them with: ray stop
set -euo pipefail

if [ "$#" -gt 0 ]; then
    gpus=("$@")
else
    mapfile -t gpus < <(nvidia-smi --query-gpu=index --format=csv,noheader)
fi
[ "${#gpus[@]}" -gt 0 ] || { echo "no GPU named and none found" >&2; exit 2; }

export RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH=${RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH:-serve_app.http.proxy_sockets:bounded_sockets} # docs/security.md
export RAY_worker_niceness=${RAY_worker_niceness:-0} # docs/operations.md
export RAY_health_check_period_ms=${RAY_health_check_period_ms:-1000} RAY_health_check_failure_threshold=${RAY_health_check_failure_threshold:-3} # a dead node is noticed after 3 s
export RAY_timeout_ms_task_wait_for_death_info=${RAY_timeout_ms_task_wait_for_death_info:-200} RAY_core_worker_internal_heartbeat_ms=${RAY_core_worker_internal_heartbeat_ms:-200} # docs/operations.md
cpus=$(($(nproc) / ${#gpus[@]}))
[ "$cpus" -ge 2 ] || cpus=2
address=${RAY_ADDRESS:-}
for gpu in "${gpus[@]}"; do
    if [ -z "$address" ]; then
        CUDA_VISIBLE_DEVICES=$gpu ray start --head --num-gpus=1 --num-cpus="$cpus" --disable-usage-stats
        address=127.0.0.1:6379
    else
        CUDA_VISIBLE_DEVICES=$gpu ray start --address="$address" --num-gpus=1 --num-cpus="$cpus" --disable-usage-stats
    fi
done
echo "${#gpus[@]} Ray node(s), one GPU each; on one machine set proxy_location: HeadOnly in serve_config.yaml"
