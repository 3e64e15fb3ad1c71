/* Closed-loop load: each connection sends a request, reads the whole answer, and sends the next.
 *
 *   load PORT CONNECTIONS SECONDS FILE MARK [SIZE [EVERY]]
 *
 * FILE holds one request, head and body, as it goes over the wire; with SIZE it holds several, which have so many bytes
 * each and are sent in turn. With EVERY a connection sends no sooner than so many milliseconds after it last did. An
 * answer counts if its status is 200 and it holds the text MARK. Ends after SECONDS, when the answers in flight are
 * there; prints one line of JSON, times in milliseconds.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { CAPACITY = 1 << 16, EVENTS = 256 };

struct connection {
    int fd;
    size_t used;
    int64_t sent_at;
    int paused;
    char bytes[CAPACITY];
};

static char *requests, *mark;
static size_t request_size, requests_size, next_at;
static int64_t ends_at, every;
static float *times;
static size_t count, room, errors;
static int in_flight, poll_fd;
static struct sockaddr_in target = {.sin_family = AF_INET};

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void ask(struct connection *c) {
    c->used = 0;
    c->paused = 0;
    c->sent_at = now();
    const char *request = requests + next_at;
    next_at = (next_at + request_size) % requests_size;
    size_t sent = 0;
    while (sent < request_size) {
        ssize_t wrote = send(c->fd, request + sent, request_size - sent, MSG_NOSIGNAL);
        if (wrote <= 0) {
            return; /* the read that follows tells that the connection is gone */
        }
        sent += (size_t)wrote;
    }
}

static void dial(struct connection *c) {
    int yes = 1;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)&target, sizeof target)) {
        perror("load: connect");
        exit(1);
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, c->fd, &wanted);
    in_flight++;
    ask(c);
}

/* Return whether the answer in the buffer is whole; `*good` tells whether it is the one that was wanted. */
static int whole(struct connection *c, int *good) {
    c->bytes[c->used] = 0;
    char *end = memmem(c->bytes, c->used, "\r\n\r\n", 4);
    if (!end) {
        return 0;
    }
    size_t head = (size_t)(end - c->bytes) + 4, length = 0;
    int chunked = 0;
    for (char *line = c->bytes; (line = memmem(line, (size_t)(end - line), "\r\n", 2)); line += 2) {
        if (strncasecmp(line + 2, "content-length:", 15) == 0) {
            length = strtoul(line + 17, NULL, 10);
        }
        chunked |= strncasecmp(line + 2, "transfer-encoding:", 18) == 0;
    }
    if (chunked ? c->used < 5 || memcmp(c->bytes + c->used - 5, "0\r\n\r\n", 5) != 0 : c->used < head + length) {
        return 0;
    }
    *good = strncmp(c->bytes, "HTTP/1.1 200", 12) == 0 && memmem(c->bytes + head, c->used - head, mark, strlen(mark));
    return 1;
}

/* Send the next request, unless it is too soon or too late. */
static void next(struct connection *c, int64_t at) {
    int64_t due = c->sent_at + every;
    if ((due > at ? due : at) >= ends_at) {
        close(c->fd);
        c->paused = 0;
        in_flight--;
    } else if (due > at) {
        c->paused = 1;
    } else {
        ask(c);
    }
}

static void done(struct connection *c, int good) {
    int64_t at = now();
    if (!good) {
        if (errors++ == 0) {
            fprintf(stderr, "load: first bad answer: %.300s\n", c->bytes);
        }
    } else {
        if (count == room) {
            room = room ? 2 * room : 1 << 16;
            times = realloc(times, room * sizeof *times);
        }
        times[count++] = (float)(at - c->sent_at) / 1e6f;
    }
    next(c, at);
}

static void hear(struct connection *c) {
    ssize_t got = recv(c->fd, c->bytes + c->used, CAPACITY - 1 - c->used, 0);
    int good = 0;
    if (got > 0) {
        c->used += (size_t)got;
        if (whole(c, &good)) {
            done(c, good);
        }
        return;
    }
    errors++;
    close(c->fd);
    c->paused = 0;
    in_flight--;
    if (now() < ends_at && errors < 1000) {
        dial(c);
    }
}

static int order(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double quantile(double part) {
    return count ? times[(size_t)(part * (double)(count - 1))] : 0.0;
}

int main(int argc, char **argv) {
    if (argc < 6 || argc > 8) {
        fprintf(stderr, "usage: load PORT CONNECTIONS SECONDS FILE MARK [SIZE [EVERY]]\n");
        return 2;
    }
    FILE *file = fopen(argv[4], "rb");
    if (!file) {
        perror("load");
        return 1;
    }
    fseek(file, 0, SEEK_END);
    long held = ftell(file);
    rewind(file);
    requests = malloc((size_t)held + 1);
    requests_size = fread(requests, 1, (size_t)held, file);
    fclose(file);
    request_size = argc > 6 ? strtoul(argv[6], NULL, 10) : requests_size;
    if (request_size == 0 || requests_size % request_size != 0) {
        fprintf(stderr, "load: %zu bytes are no requests of %zu bytes each\n", requests_size, request_size);
        return 2;
    }
    mark = argv[5];
    every = argc > 7 ? (int64_t)(atof(argv[7]) * 1e6) : 0;
    target.sin_port = htons((uint16_t)atoi(argv[1]));
    target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int connections = atoi(argv[2]);
    poll_fd = epoll_create1(0);
    int64_t began = now();
    ends_at = began + (int64_t)(atof(argv[3]) * 1e9);
    struct connection *all = calloc((size_t)connections, sizeof *all);
    for (int i = 0; i < connections; i++) {
        dial(&all[i]);
    }
    struct epoll_event ready[EVENTS];
    while (in_flight > 0) {
        int64_t at = now(), soonest = INT64_MAX;
        for (int i = 0; every && i < connections; i++) {
            if (all[i].paused) {
                next(&all[i], at);
            }
            if (all[i].paused && all[i].sent_at + every < soonest) {
                soonest = all[i].sent_at + every;
            }
        }
        if (in_flight == 0) {
            break;
        }
        int wait = soonest == INT64_MAX ? 60000 : (int)((soonest - at) / 1000000) + 1;
        int some = epoll_wait(poll_fd, ready, EVENTS, wait);
        if (some == 0 && soonest == INT64_MAX) {
            fprintf(stderr, "load: no answer for 60 s\n");
            return 1;
        }
        for (int i = 0; i < some; i++) {
            hear(ready[i].data.ptr);
        }
    }
    double seconds = (double)(now() - began) / 1e9;
    qsort(times, count, sizeof *times, order);
    printf("{\"requests\": %zu, \"errors\": %zu, \"seconds\": %.6f, \"p50\": %.4f, \"p90\": %.4f, \"p99\": %.4f}\n",
        count, errors, seconds, quantile(0.5), quantile(0.9), quantile(0.99));
    return 0;
}
