#!/bin/sh
# Starts PostgreSQL, Redis or HAProxy from Debian's packages as the entrypoints of the official images do.
set -e
as_postgres() { setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }
case "$1" in
redis-server)
    exec "$@" --protected-mode no
    ;;
haproxy)
    exec haproxy -W -db -f /usr/local/etc/haproxy/haproxy.cfg
    ;;
postgres)
    data=/var/lib/postgresql/data
    if [ ! -e "$data/PG_VERSION" ]; then
        install -d -o postgres -g postgres -m 0700 "$data"
        printf %s "$POSTGRES_PASSWORD" >/tmp/password
        chmod 0644 /tmp/password
        as_postgres initdb --pgdata="$data" --username="$POSTGRES_USER" --pwfile=/tmp/password --auth=scram-sha-256
        rm /tmp/password
        echo "CREATE DATABASE $POSTGRES_DB;" | as_postgres postgres --single -D "$data" postgres
        echo "host all all all scram-sha-256" >>"$data/pg_hba.conf"
    fi
    install -d -o postgres -g postgres /run/postgresql
    exec setpriv --reuid=postgres --regid=postgres --init-groups postgres -D "$data" -c "listen_addresses=*"
    ;;
esac
