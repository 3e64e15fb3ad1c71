/* A model provider that costs next to nothing, so that what is measured is the proxy in front of it.
 *
 *   fast_upstream [CHUNKS]      listens on a free port of 127.0.0.1, prints it, and serves until its stdin ends
 *
 * Any POST is answered as a chat completion: whole, or, if the body says "stream":true, as CHUNKS events (default 20),
 * four to a write, with a usage chunk if "include_usage":true was asked for. `system_fingerprint` of a whole answer is
 * the instant at which the request had arrived (nanoseconds of CLOCK_MONOTONIC, which all processes share). Any other
 * method gets {}. One thread, epoll, keep-alive, no pipelining.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { CAPACITY = 1 << 17, PER_WRITE = 4, EVENTS = 512 };

struct connection {
    char *bytes;
    size_t used;
};

static struct connection *connections;
static size_t most;
static int chunks = 20;

static const char SAID[] =
    "Sleep is when nothing is asked of an agent, and so the only time at which it can think for free. Wake it when "
    "somebody speaks to it, and let it sleep again when it has answered. Nobody pays for the time in between.";

static void send_all(int fd, const char *bytes, size_t size) {
    while (size > 0) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent < 0) { /* the socket's buffer holds far more than an answer; else the caller is gone */
            return;
        }
        bytes += sent;
        size -= (size_t)sent;
    }
}

static void answer_whole(int fd) {
    char body[1024], head[256];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int size = snprintf(body, sizeof body,
        "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\",\"created\":1760000000,\"model\":\"gpt-4o-mini\","
        "\"system_fingerprint\":\"%lld\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"
        "\"%s\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":512,"
        "\"completion_tokens\":48,\"total_tokens\":560,\"prompt_tokens_details\":{\"cached_tokens\":0}}}",
        (long long)now.tv_sec * 1000000000LL + now.tv_nsec, SAID);
    int length = snprintf(head, sizeof head,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n", size);
    memmove(body + length, body, (size_t)size);
    memcpy(body, head, (size_t)length);
    send_all(fd, body, (size_t)(size + length));
}

static int event(char *at, const char *choices, const char *usage) {
    char data[512];
    int size = snprintf(data, sizeof data,
        "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,"
        "\"model\":\"gpt-4o-mini\",\"choices\":[%s]%s}\n\n", choices, usage);
    return sprintf(at, "%x\r\n%s\r\n", (unsigned)size, data);
}

static void answer_stream(int fd, int with_usage) {
    char out[8192], choice[160];
    int used = sprintf(out, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
    const char *nothing = with_usage ? ",\"usage\":null" : "";
    for (int i = 0; i < chunks; i++) {
        const char *finish = i == chunks - 1 ? "\"stop\"" : "null";
        snprintf(choice, sizeof choice, "{\"index\":0,\"delta\":{%s\"content\":\"%.9s\"},\"finish_reason\":%s}",
            i == 0 ? "\"role\":\"assistant\"," : "", SAID + (i * 9) % 180, finish);
        used += event(out + used, choice, nothing);
        if (i % PER_WRITE == PER_WRITE - 1) {
            send_all(fd, out, (size_t)used);
            used = 0;
        }
    }
    if (with_usage) {
        used += event(out + used, "",
            ",\"usage\":{\"prompt_tokens\":512,\"completion_tokens\":48,\"total_tokens\":560}");
    }
    used += sprintf(out + used, "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
    send_all(fd, out, (size_t)used);
}

/* Return the size of the request at the start of the buffer, 0 if it is not whole yet. */
static size_t whole_request(struct connection *c, size_t *head) {
    char *end = memmem(c->bytes, c->used, "\r\n\r\n", 4);
    if (!end) {
        return 0;
    }
    *head = (size_t)(end - c->bytes) + 4;
    size_t length = 0;
    for (char *line = c->bytes; line < end; line++) {
        line = memmem(line, (size_t)(end - line), "\r\n", 2);
        if (!line) {
            break;
        }
        if (strncasecmp(line + 2, "content-length:", 15) == 0) {
            length = strtoul(line + 17, NULL, 10);
        }
        if (strncasecmp(line + 2, "transfer-encoding:", 18) == 0) { /* a proxy that sends chunks */
            char *last = memmem(end + 4, c->used - *head, "\r\n0\r\n\r\n", 7);
            return last ? (size_t)(last - c->bytes) + 7 : 0;
        }
    }
    return c->used >= *head + length ? *head + length : 0;
}

static int asks(struct connection *c, size_t head, size_t size, const char *key) {
    char *at = memmem(c->bytes + head, size - head, key, strlen(key));
    if (!at) {
        return 0;
    }
    at += strlen(key);
    while (*at == ' ' || *at == ':') {
        at++;
    }
    return strncmp(at, "true", 4) == 0;
}

static void serve(int fd, struct connection *c) {
    size_t head, size;
    while ((size = whole_request(c, &head)) > 0) {
        if (strncmp(c->bytes, "POST", 4) != 0) {
            static const char none[] = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
            send_all(fd, none, sizeof none - 1);
        } else if (asks(c, head, size, "\"stream\"")) {
            answer_stream(fd, asks(c, head, size, "\"include_usage\""));
        } else {
            answer_whole(fd);
        }
        memmove(c->bytes, c->bytes + size, c->used - size);
        c->used -= size;
    }
}

static void hang_up(int fd) {
    free(connections[fd].bytes);
    connections[fd] = (struct connection){0};
    close(fd);
}

static void hear(int fd) {
    struct connection *c = &connections[fd];
    if (!c->bytes) {
        c->bytes = malloc(CAPACITY);
    }
    ssize_t got = recv(fd, c->bytes + c->used, CAPACITY - 1 - c->used, 0);
    if (got <= 0) {
        hang_up(fd);
        return;
    }
    c->used += (size_t)got;
    c->bytes[c->used] = 0;
    serve(fd, c);
}

int main(int argc, char **argv) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    most = limit.rlim_max < 1 << 20 ? limit.rlim_max : 1 << 20;
    connections = calloc(most, sizeof *connections);
    if (argc > 1) {
        chunks = atoi(argv[1]);
    }
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    if (bind(listener, (struct sockaddr *)&at, size) || listen(listener, 8192)) {
        perror("fast_upstream");
        return 1;
    }
    getsockname(listener, (struct sockaddr *)&at, &size);
    printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    int poll = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLIN, .data.fd = listener}, ready[EVENTS];
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &wanted);
    wanted.data.fd = STDIN_FILENO;
    epoll_ctl(poll, EPOLL_CTL_ADD, STDIN_FILENO, &wanted);
    for (;;) {
        int count = epoll_wait(poll, ready, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            int fd = ready[i].data.fd;
            if (fd == STDIN_FILENO) {
                return 0;
            }
            if (fd != listener) {
                hear(fd);
                continue;
            }
            int caller = accept(listener, NULL, NULL);
            if (caller < 0 || (size_t)caller >= most) {
                continue;
            }
            setsockopt(caller, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
            wanted.data.fd = caller;
            epoll_ctl(poll, EPOLL_CTL_ADD, caller, &wanted);
        }
    }
}
