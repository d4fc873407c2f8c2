# hosts.sh - the hosts of a program know each other by variables that zl_group_init and programs of torchrun read.
hosts=$SKYPILOT_NODE_IPS rank=$SKYPILOT_NODE_RANK
if [ -n "${ZL_TPU_HOSTS:-}" ]; then
    # SkyPilot orders the hosts of a slice by address. Which part of the slice a host has is known to its metadata.
    attribute() { curl -sf -m 30 -H 'Metadata-Flavor: Google' "http://metadata.google.internal/computeMetadata/v1/instance/attributes/$1"; }
    export TPU_WORKER_ID=${TPU_WORKER_ID:-$(attribute agent-worker-number)}
    export TPU_WORKER_HOSTNAMES=${TPU_WORKER_HOSTNAMES:-$(attribute worker-network-endpoints | tr , '\n' | cut -d : -f 3 | paste -s -d , -)}
    rank=$TPU_WORKER_ID hosts=$(echo "$TPU_WORKER_HOSTNAMES" | tr , '\n')
    if [ -z "$rank" ] || [ "$(echo "$hosts" | grep -c .)" != "$ZL_TPU_HOSTS" ]; then
        echo "zellige cloud: a slice of $ZL_TPU_HOSTS hosts, of which this is '$rank' among '$TPU_WORKER_HOSTNAMES'" >&2
        exit 1
    fi
fi
export RANK=$rank WORLD_SIZE=$(echo "$hosts" | grep -c .) MASTER_ADDR=$(echo "$hosts" | head -n 1)
export MASTER_PORT=$((20000 + $(echo "$SKYPILOT_TASK_ID" | cksum | cut -d ' ' -f 1) % 10000)) # another one for each task
