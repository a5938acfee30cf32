/*
 * The time to transfer ranges of a file to another process, in three ways that
 * alternate:
 *
 *     ranges    ucxpool_source_ranges()
 *     read      pread() of each into one buffer, which is then sent
 *     sendfile  sendfile() of each over TCP on the loopback device, as a server
 *               without UCX does
 *
 * The file is in the page cache, and the data ends in the receiver's memory.
 * Times are medians of all rounds but the first, in which the data is compared.
 * Processor time is the mean of all rounds.
 *
 * usage: bench_file [NUM_RANGES [BYTES [STEP [NUM_ROUNDS]]]]
 *
 * Range i starts at position i * STEP of the file, counted in ranges. STEP is
 * odd. Its default of 1 makes the ranges adjacent. UCXPOOL_WIRE and other
 * settings are read as usual.
 */
#include "common/system.h"

#include <ucxpool/ucxpool.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAG        UINT64_C(1)
#define MAX_ROUNDS 1000u

typedef enum way { WAY_RANGES, WAY_READ, WAY_SENDFILE, NUM_WAYS } way_t;

static const char *const names[] = {"ranges", "read", "sendfile"};

typedef struct job {
    size_t           num, size, step;
    unsigned         num_rounds;
    int              file;
    ucxpool_range_t *ranges;
    uint8_t         *buffer;   /* data read or received */
    double          *receiver; /* its processor time in seconds; shared */
} job_t;

/* One of the two processes. */
typedef struct end {
    ucxpool_t         *pool;
    ucxpool_channel_t *channel;
    int                connection;
} end_t;

static void fail(const char *what)
{
    fprintf(stderr, "bench_file: %s failed\n", what);
    exit(EXIT_FAILURE);
}

static void must(ucxpool_status_t status)
{
    if (status != UCXPOOL_OK) {
        fail(ucxpool_error_detail());
    }
}

static double processor_time(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

/* --- the file ------------------------------------------------------------- */

static size_t total(const job_t *job)
{
    return job->num * job->size;
}

static void job_init(job_t *job)
{
    char   path[] = "/tmp/bench_file_XXXXXX";
    size_t num    = job->num;

    job->file   = mkstemp(path);
    job->ranges = calloc(num, sizeof(*job->ranges));
    job->buffer = malloc(total(job));
    job->receiver =
        mmap(NULL, NUM_WAYS * sizeof(double), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if ((job->file < 0) || (unlink(path) != 0) || (job->ranges == NULL) ||
        (job->buffer == NULL) || (job->receiver == MAP_FAILED)) {
        fail("making a file");
    }
    for (size_t i = 0; i < total(job); i++) {
        job->buffer[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    for (size_t done = 0; done < total(job);) {
        ssize_t n = write(job->file, job->buffer + done, total(job) - done);

        if (n <= 0) {
            fail("write");
        }
        done += (size_t)n;
    }
    for (size_t i = 0; i < num; i++) {
        job->ranges[i] = ucxpool_range_file(
            job->file, (int64_t)(i * job->step % num * job->size), job->size,
            NULL);
    }
}

/* Read all ranges into one buffer, in the order of the message. */
static void read_ranges(const job_t *job, uint8_t *target)
{
    for (size_t i = 0; i < job->num; i++) {
        if (pread(job->file, target + i * job->size, job->size,
                  job->ranges[i].at.offset) != (ssize_t)job->size) {
            fail("pread");
        }
    }
}

/* --- the sender ----------------------------------------------------------- */

static void send_data(const end_t *end, ucxpool_data_t data)
{
    ucxpool_request_t *request;

    must(ucxpool_send(end->channel, &data, TAG, NULL, &request));
    must(ucxpool_request_wait(request, UCXPOOL_FOREVER));
    ucxpool_request_release(request);
}

static void send_by_sendfile(const job_t *job, const end_t *end)
{
    int  on = 1, off = 0;
    char answer;

    setsockopt(end->connection, IPPROTO_TCP, TCP_CORK, &on, sizeof(on));
    for (size_t i = 0; i < job->num; i++) {
        off_t  offset = job->ranges[i].at.offset;
        size_t left   = job->size;

        while (left > 0) {
            ssize_t n = sendfile(end->connection, job->file, &offset, left);

            if (n <= 0) {
                fail("sendfile");
            }
            left -= (size_t)n;
        }
    }
    setsockopt(end->connection, IPPROTO_TCP, TCP_CORK, &off, sizeof(off));
    if (read(end->connection, &answer, 1) != 1) {
        fail("read");
    }
}

static void send_once(const job_t *job, const end_t *end, way_t way)
{
    switch (way) {
    case WAY_RANGES:
        send_data(end, ucxpool_source_ranges(job->ranges, job->num));
        break;
    case WAY_READ:
        read_ranges(job, job->buffer);
        send_data(end, ucxpool_source_buffer(job->buffer, total(job)));
        break;
    default:
        send_by_sendfile(job, end);
        break;
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *times, unsigned num)
{
    qsort(times, num, sizeof(*times), compare);
    return (times[(num - 1) / 2] + times[num / 2]) / 2;
}

static void send_all(const job_t *job, const end_t *end)
{
    static double times[NUM_WAYS][MAX_ROUNDS];
    double        used[NUM_WAYS] = {0};
    double        middle[NUM_WAYS];

    for (unsigned round = 0; round <= job->num_rounds; round++) {
        for (unsigned way = 0; way < NUM_WAYS; way++) {
            uint64_t before = clock_now();
            double   cpu    = processor_time();

            send_once(job, end, (way_t)way);
            if (round != 0) {
                used[way] += processor_time() - cpu;
                times[way][round - 1] = (double)(clock_now() - before) * 1e-6;
            }
        }
    }
    /* The receiver records its times before it answers the last round. */
    wait(NULL);
    printf("%-9s %9s %7s %9s %11s %6s\n", "way", "ms", "GB/s", "sender ms",
           "receiver ms", "ratio");
    for (unsigned way = 0; way < NUM_WAYS; way++) {
        middle[way] = median(times[way], job->num_rounds);
        printf("%-9s %9.3f %7.2f %9.3f %11.3f %6.2f\n", names[way], middle[way],
               (double)total(job) * 1e-6 / middle[way],
               used[way] * 1e3 / job->num_rounds,
               job->receiver[way] * 1e3 / job->num_rounds,
               middle[way] / middle[WAY_RANGES]);
    }
}

/* --- the receiver --------------------------------------------------------- */

static void receive_by_pool(const job_t *job, const end_t *end)
{
    ucxpool_request_t *request;

    must(ucxpool_recv_buffer(end->pool, end->channel, job->buffer, total(job),
                             TAG, UINT64_MAX, NULL, &request));
    must(ucxpool_request_wait(request, UCXPOOL_FOREVER));
    ucxpool_request_release(request);
}

static void receive_by_socket(const job_t *job, const end_t *end)
{
    for (size_t done = 0; done < total(job);) {
        ssize_t n =
            recv(end->connection, job->buffer + done, total(job) - done, 0);

        if (n <= 0) {
            fail("recv");
        }
        done += (size_t)n;
    }
}

static void receive_all(const job_t *job, const end_t *end)
{
    uint8_t *expected = malloc(total(job));

    read_ranges(job, expected);
    for (unsigned round = 0; round <= job->num_rounds; round++) {
        for (unsigned way = 0; way < NUM_WAYS; way++) {
            double cpu = processor_time();

            if (way == WAY_SENDFILE) {
                receive_by_socket(job, end);
            } else {
                receive_by_pool(job, end);
            }
            if (round != 0) {
                job->receiver[way] += processor_time() - cpu;
            } else if (memcmp(job->buffer, expected, total(job)) != 0) {
                fail("the received data differs: the transfer");
            }
            if ((way == WAY_SENDFILE) && (write(end->connection, "", 1) != 1)) {
                fail("write");
            }
        }
    }
    free(expected);
}

/* --- both ----------------------------------------------------------------- */

static int tcp_listen(struct sockaddr_in *address)
{
    socklen_t length = sizeof(*address);
    int       fd     = socket(AF_INET, SOCK_STREAM, 0);

    *address = (struct sockaddr_in){
        .sin_family      = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    if ((bind(fd, (struct sockaddr *)address, length) != 0) ||
        (listen(fd, 1) != 0) ||
        (getsockname(fd, (struct sockaddr *)address, &length) != 0)) {
        fail("listen");
    }
    return fd;
}

static void run_receiver(const job_t *job, const struct sockaddr_in *address,
                         int pipe_fd)
{
    char  where[32];
    end_t end;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    end.connection = socket(AF_INET, SOCK_STREAM, 0);
    if ((connect(end.connection, (const struct sockaddr *)address,
                 sizeof(*address)) != 0) ||
        (read(pipe_fd, where, sizeof(where)) != sizeof(where))) {
        fail("connect");
    }
    must(ucxpool_create(NULL, &end.pool));
    must(ucxpool_channel_connect(end.pool, where, NULL, &end.channel));
    receive_all(job, &end);
    ucxpool_destroy(end.pool);
}

static void run_sender(const job_t *job, int listener, int pipe_fd)
{
    char                where[32] = "";
    end_t               end;
    ucxpool_listener_t *calls;

    must(ucxpool_create(NULL, &end.pool));
    must(ucxpool_listener_create(end.pool, "127.0.0.1:0", &calls));
    snprintf(where, sizeof(where), "127.0.0.1:%u",
             ucxpool_listener_port(calls));
    if (write(pipe_fd, where, sizeof(where)) != sizeof(where)) {
        fail("write");
    }
    end.connection = accept(listener, NULL, NULL);
    while (ucxpool_listener_accept(calls, NULL, &end.channel) != UCXPOOL_OK) {
        ucxpool_wait(end.pool, 1000000);
    }
    send_all(job, &end);
    ucxpool_destroy(end.pool);
}

static size_t number(int argc, char **argv, int index, size_t preset)
{
    return (index < argc) ? (size_t)strtoull(argv[index], NULL, 0) : preset;
}

int main(int argc, char **argv)
{
    job_t              job = {.num        = number(argc, argv, 1, 10000),
                              .size       = number(argc, argv, 2, 4096),
                              .step       = number(argc, argv, 3, 1),
                              .num_rounds = (unsigned)number(argc, argv, 4, 31)};
    struct sockaddr_in address;
    int                listener, fds[2];
    pid_t              pid;

    if ((job.num == 0) || (job.size == 0) || (job.step % 2 == 0) ||
        (job.num_rounds == 0) || (job.num_rounds > MAX_ROUNDS)) {
        fail("reading the job");
    }
    job_init(&job);
    listener = tcp_listen(&address);
    if (pipe(fds) != 0) {
        fail("pipe");
    }
    pid = fork();
    if (pid < 0) {
        fail("fork");
    }
    if (pid == 0) {
        run_receiver(&job, &address, fds[0]);
    } else {
        run_sender(&job, listener, fds[1]);
    }
    return EXIT_SUCCESS;
}
