/* Puts a network's delay in front of a local server, and counts the round trips that its clients wait for.
 *
 *   delay_proxy SOCKET      forwards TCP connections to the UNIX socket; prints its port and the port of an echo that
 *                           has the same delay; serves until its stdin ends
 *
 * Lines on stdin: `delay MICROSECONDS` sets the delay of a whole round trip, half of it each way, and is answered by
 * `ok`; `begin` sets the counts to zero, answered by `ok`; `count` is answered by the number of trips and the median
 * number of microseconds for which bytes were kept, both ways together. A trip is what a client sends after it has
 * heard something: what it sends without waiting belongs to the same trip. One thread, epoll. A receiver that stops
 * reading blocks all: fit for short statements and answers only.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { CAPACITY = 1 << 16, EVENTS = 256, STEP_US = 5, STEPS = 20000 };

struct pair {
    int fd[2]; /* the client's and the server's; an echo has no server */
    int ended; /* directions whose end was passed on */
    int heard; /* whether the client got something since it last sent */
};

struct end {
    struct pair *pair;
    int side;
};

struct chunk {
    struct chunk *next;
    struct pair *pair;
    int from; /* the side that sent it */
    int64_t came, due;
    size_t size; /* 0 is the end of what the side sends */
    char bytes[];
};

static struct chunk *first, *last; /* in the order in which they are due, since all have the same delay */
static int64_t delay_ns;
static long trips;
static long kept[2][STEPS];
static int poll_fd;
static struct sockaddr_un server = {.sun_family = AF_UNIX};

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void watch(int fd, struct pair *pair, int side) {
    struct end *end = malloc(sizeof *end);
    *end = (struct end){pair, side};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = end};
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void put(struct chunk *chunk, int64_t now) {
    chunk->next = NULL;
    chunk->came = now;
    chunk->due = now + delay_ns / 2;
    *(first ? &last->next : &first) = chunk;
    last = chunk;
}

/* Pass on what is due. */
static void deliver(void) {
    int64_t now;
    while (first && first->due <= (now = now_ns())) {
        struct chunk *chunk = first;
        struct pair *pair = chunk->pair;
        first = chunk->next;
        if (pair->fd[1] < 0 && chunk->from == 0) { /* an echo: the bytes turn round */
            chunk->from = 1;
            put(chunk, now);
            continue;
        }
        int to = pair->fd[!chunk->from];
        for (size_t sent = 0; sent < chunk->size;) {
            ssize_t some = send(to, chunk->bytes + sent, chunk->size - sent, MSG_NOSIGNAL);
            if (some < 0) {
                break;
            }
            sent += (size_t)some;
        }
        if (chunk->size > 0) {
            int64_t step = (now - chunk->came) / 1000 / STEP_US;
            kept[chunk->from][step < STEPS ? step : STEPS - 1] += pair->fd[1] >= 0;
            pair->heard |= chunk->from == 1;
        } else {
            shutdown(to, SHUT_WR);
            pair->ended++;
        }
        if (pair->ended == 2 || (pair->ended == 1 && pair->fd[1] < 0)) {
            close(pair->fd[0]);
            if (pair->fd[1] >= 0) {
                close(pair->fd[1]);
            }
            free(pair);
        }
        free(chunk);
    }
}

static void take(struct end *end) {
    struct pair *pair = end->pair;
    int fd = pair->fd[end->side];
    struct chunk *chunk = malloc(sizeof *chunk + CAPACITY);
    ssize_t size = recv(fd, chunk->bytes, CAPACITY, MSG_DONTWAIT);
    chunk = realloc(chunk, sizeof *chunk + (size > 0 ? (size_t)size : 0));
    chunk->pair = pair;
    chunk->from = end->side;
    chunk->size = size > 0 ? (size_t)size : 0;
    if (size > 0 && end->side == 0 && pair->fd[1] >= 0 && pair->heard) {
        trips++;
        pair->heard = 0;
    }
    if (size <= 0) {
        epoll_ctl(poll_fd, EPOLL_CTL_DEL, fd, NULL);
        free(end);
    }
    put(chunk, now_ns());
}

static void welcome(int listener, int echoes) {
    int yes = 1, client = accept(listener, NULL, NULL);
    if (client < 0) {
        return;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    struct pair *pair = calloc(1, sizeof *pair);
    *pair = (struct pair){{client, -1}, 0, 1};
    if (!echoes) {
        pair->fd[1] = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(pair->fd[1], (struct sockaddr *)&server, sizeof server) < 0) {
            close(pair->fd[1]);
            close(client);
            free(pair);
            return;
        }
        watch(pair->fd[1], pair, 1);
    }
    watch(client, pair, 0);
}

static long median(const long *counts) {
    long all = 0, seen = 0;
    for (int i = 0; i < STEPS; i++) {
        all += counts[i];
    }
    for (int i = 0; i < STEPS; i++) {
        seen += counts[i];
        if (2 * seen >= all) {
            return all ? i * STEP_US + STEP_US / 2 : 0;
        }
    }
    return 0;
}

static void obey(void) {
    char line[64];
    if (!fgets(line, sizeof line, stdin)) {
        exit(0);
    }
    if (strncmp(line, "delay ", 6) == 0) {
        delay_ns = strtoll(line + 6, NULL, 10) * 1000;
        puts("ok");
    } else if (strncmp(line, "begin", 5) == 0) {
        trips = 0;
        memset(kept, 0, sizeof kept);
        puts("ok");
    } else {
        printf("%ld %ld\n", trips, median(kept[0]) + median(kept[1]));
    }
    fflush(stdout);
}

static int listening(int *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&address, size);
    listen(listener, 512);
    getsockname(listener, (struct sockaddr *)&address, &size);
    *port = ntohs(address.sin_port);
    return listener;
}

int main(int count, char **words) {
    if (count != 2 || strlen(words[1]) >= sizeof server.sun_path) {
        fprintf(stderr, "usage: delay_proxy SOCKET\n");
        return 2;
    }
    strcpy(server.sun_path, words[1]);
    prctl(PR_SET_TIMERSLACK, 1);
    setpriority(PRIO_PROCESS, 0, -20); /* it is the network: it does not wait for a core, if it may */
    setvbuf(stdin, NULL, _IONBF, 0);
    poll_fd = epoll_create1(0);
    int ports[2];
    struct end doors[3]; /* two listeners, then stdin */
    int fds[3] = {listening(&ports[0]), listening(&ports[1]), 0};
    for (int i = 0; i < 3; i++) {
        doors[i] = (struct end){NULL, i};
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &doors[i]};
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, fds[i], &event);
    }
    printf("%d %d\n", ports[0], ports[1]);
    fflush(stdout);
    for (;;) {
        int64_t wait = first ? first->due - now_ns() : 0;
        wait = wait > 0 ? wait : 0;
        struct timespec until = {wait / 1000000000, wait % 1000000000};
        struct epoll_event events[EVENTS];
        int some = epoll_pwait2(poll_fd, events, EVENTS, first ? &until : NULL, NULL);
        for (int i = 0; i < some; i++) {
            struct end *end = events[i].data.ptr;
            if (end->pair) {
                take(end);
            } else if (end->side == 2) {
                obey();
            } else {
                welcome(fds[end->side], end->side == 1);
            }
        }
        deliver();
    }
}
