#!/usr/bin/env bash
# slurm.sh up|down FOLDER VENV - a cloud on this one machine: a Slurm of two nodes behind an sshd of its own on 127.0.0.1,
# which SkyPilot knows as slurm/zelligelocal. All of it lies in FOLDER; only a user `skyuser` and names of the nodes in
# /etc/hosts are outside, and `down` takes these away. VENV has skypilot and uv. Needs root and tool/setup.sh cloud.
set -euo pipefail

verb=$1 folder=$2 venv=$3
cluster=zelligelocal user=skyuser nodes=2 ssh_port=2223 first_port=16817
home=$folder/user
export SLURM_CONF=$folder/slurm/slurm.conf

# What SkyPilot runs on the nodes fetches uv and a Python from the network: here they get what the machine has.
write_shims() {
    cp "$venv/bin/uv" "$folder/shim/uv-real"
    cat >"$folder/shim/uv" <<END
#!/bin/bash
words=()
for word in "\$@"; do [ "\$word" != 3.10 ] || word=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])'); words+=("\$word"); done
export SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt UV_PYTHON_DOWNLOADS=never
exec $folder/shim/uv-real "\${words[@]}"
END
    cat >"$folder/shim/curl" <<END
#!/bin/bash
case "\$*" in
*astral.sh*) echo 'mkdir -p "\$UV_INSTALL_DIR" && cp $folder/shim/uv "\$UV_INSTALL_DIR/uv"' ;;
*) exec /usr/bin/curl "\$@" ;;
esac
END
    chmod 755 "$folder"/shim/*
}

make_user() {
    local path=$folder/shim:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin file
    id $user >/dev/null 2>&1 || useradd -d "$home" -m -s /bin/bash -p '*' $user
    mkdir -p "$home/.ssh"
    cp "$folder/ssh/key.pub" "$home/.ssh/authorized_keys"
    printf 'SLURM_CONF=%s\nPATH=%s\n' "$SLURM_CONF" "$path" >"$home/.ssh/environment"
    for file in .bashrc .profile; do
        printf 'export SLURM_CONF=%s PATH=%s\n' "$SLURM_CONF" "$path" >"$home/$file"
    done
    chown -R $user: "$home"
    chmod 700 "$home/.ssh" && chmod 600 "$home/.ssh/authorized_keys"
}

start_sshd() {
    cat >"$folder/ssh/config" <<END
Port $ssh_port
ListenAddress 127.0.0.1
HostKey $folder/ssh/host
PidFile $folder/ssh/pid
PasswordAuthentication no
UsePAM no
PermitUserEnvironment yes
StrictModes no
AllowUsers $user
MaxStartups 100:30:200
Subsystem sftp /usr/lib/openssh/sftp-server
END
    mkdir -p /run/sshd
    /usr/sbin/sshd -f "$folder/ssh/config" -E "$folder/ssh/log"
}

start_munge() {
    [ -s "$folder/munge/key" ] || dd if=/dev/urandom of="$folder/munge/key" bs=1024 count=1 status=none
    chown -R munge: "$folder/munge" && chmod 400 "$folder/munge/key"
    setpriv --reuid=munge --regid=munge --init-groups /usr/sbin/munged --force --key-file="$folder/munge/key" \
        --socket="$folder/munge/socket" --pid-file="$folder/munge/pid" --log-file="$folder/munge/log" \
        --seed-file="$folder/munge/seed"
}

start_slurm() {
    local host node
    host=$(hostname)
    cat >"$SLURM_CONF" <<END
ClusterName=$cluster
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
SlurmctldPort=$first_port
SlurmctldPidFile=$folder/slurm/controller.pid
SlurmdPidFile=$folder/slurm/node-%n.pid
SlurmdSpoolDir=$folder/slurm/spool-%n
StateSaveLocation=$folder/slurm/state
SlurmctldLogFile=$folder/slurm/controller.log
SlurmdLogFile=$folder/slurm/node-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
NodeName=zlnode[1-$nodes] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((first_port + 1))-$((first_port + nodes))] CPUs=1 RealMemory=2000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=04:00:00 State=UP
END
    for node in $(seq $nodes); do # SkyPilot looks nodes up by name
        grep -q " zlnode$node\$" /etc/hosts || echo "127.0.1.$node zlnode$node" >>/etc/hosts
    done
    slurmctld
    for node in $(seq $nodes); do slurmd -N "zlnode$node"; done
    for _ in $(seq 30); do
        [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = $nodes ] && return
        sleep 1
    done
    echo "slurm.sh: the nodes do not come up; $folder/slurm has the logs" >&2
    return 1
}

up() {
    mkdir -p "$folder"/{ssh,slurm/state,munge,shim,sky/.slurm}
    chmod 755 "$folder" "$folder/munge"
    for key in host key; do
        [ -s "$folder/ssh/$key" ] || ssh-keygen -q -t ed25519 -N '' -f "$folder/ssh/$key"
    done
    write_shims
    make_user
    start_sshd
    start_munge
    start_slurm
    printf 'Host %s\n  HostName 127.0.0.1\n  Port %s\n  User %s\n  IdentityFile %s\n  IdentitiesOnly yes\n' \
        $cluster $ssh_port $user "$folder/ssh/key" >"$folder/sky/.slurm/config"
}

down() {
    local file
    for file in "$folder"/slurm/node-*.pid "$folder/slurm/controller.pid" "$folder/munge/pid" "$folder/ssh/pid"; do
        [ ! -s "$file" ] || kill "$(cat "$file")" 2>/dev/null || true
    done
    ! id $user >/dev/null 2>&1 || pkill -u $user || true # sessions that SkyPilot keeps open for the next time
    sleep 1
    sed '/ zlnode[0-9]*$/d' /etc/hosts >"$folder/hosts" && cat "$folder/hosts" >/etc/hosts # it may be mounted: no renaming
    ! id $user >/dev/null 2>&1 || userdel -f $user 2>/dev/null || true
}

case $verb in
up) up ;;
down) down ;;
*) sed -n '2,4s/^# //p' "$0" >&2 && exit 2 ;;
esac
