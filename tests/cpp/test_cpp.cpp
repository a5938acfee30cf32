/* The C++ header: handles, errors, data and coroutines. Not part of the build;
 * tests/test_cpp.sh compiles and runs it. Each test runs over the wire that
 * UCXPOOL_WIRE selects. */
#include <ucxpool/ucxpool.hpp>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include <sys/wait.h>

using namespace std::chrono_literals;
using ucxpool::channel;
using ucxpool::pool;
using ucxpool::request;

/* --- the tests and their checks ------------------------------------------- */

struct test {
    const char *name;
    void (*run)();
};

static std::vector<test> &tests()
{
    static std::vector<test> all;

    return all;
}

#define TEST(_name) \
    static void       _name(); \
    static const bool _name##_added = \
        (tests().push_back({#_name, _name}), true); \
    static void _name()

#define REQUIRE(_what) \
    do { \
        if (!(_what)) { \
            std::printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #_what); \
            std::exit(1); \
        } \
    } while (0)

/* Returns the error that a call throws. */
static ucxpool::error error_of(const std::function<void()> &call)
{
    try {
        call();
    } catch (const ucxpool::error &error) {
        return error;
    }
    std::printf("a call that must throw has not thrown\n");
    std::exit(1);
}

static bool has(const char *text, const char *part)
{
    return std::strstr(text, part) != nullptr;
}

/* --- two pools, connected --------------------------------------------------
 */

struct two {
    two()
    {
        while (!b_to_a) {
            progress();
            b_to_a = listener.accept();
        }
        while (!a_to_b.wait(0ns) || !b_to_a.wait(0ns)) {
            progress();
        }
    }

    void progress() const
    {
        a.progress();
        b.progress();
    }

    /* Returns the result of a request of either pool. */
    ucxpool_status_t end_of(const request &request) const
    {
        while (request.test() == UCXPOOL_INPROGRESS) {
            progress();
        }
        return request.wait_status();
    }

    pool              a, b;
    ucxpool::listener listener = b.listen("127.0.0.1:0");
    channel a_to_b = a.connect("127.0.0.1:" + std::to_string(listener.port()));
    channel b_to_a;
};

static std::vector<int> numbers(std::size_t count)
{
    std::vector<int> numbers(count);

    std::iota(numbers.begin(), numbers.end(), 1);
    return numbers;
}

/* --- errors --------------------------------------------------------------- */

TEST(errors_have_status_code_and_detail)
{
    pool           pool;
    ucxpool::error error = error_of([&] { (void)pool.connect("nowhere"); });

    REQUIRE(error.status() == UCXPOOL_ERR_INVALID_PARAM);
    REQUIRE(error.code() == std::errc::invalid_argument);
    REQUIRE(error.code() ==
            ucxpool::make_error_code(UCXPOOL_ERR_INVALID_PARAM));
    REQUIRE(has(error.detail(), "nowhere"));
    REQUIRE(has(error.what(), "nowhere"));
    REQUIRE(error.code().category() == ucxpool::category());
    REQUIRE(error.code().message() ==
            ucxpool_status_string(UCXPOOL_ERR_INVALID_PARAM));
    REQUIRE(ucxpool::make_error_code(UCXPOOL_ERR_CHECKSUM) ==
            std::errc::bad_message);
    REQUIRE(ucxpool::make_error_code(UCXPOOL_ERR_REFUSED) !=
            std::errc::connection_refused);
}

TEST(create_throws_the_reason)
{
    ucxpool::config config;
    ucxpool::error  error =
        error_of([&] { config.set("BLOCK_SIZE", "nonsense"); });

    REQUIRE(has(error.detail(), "BLOCK_SIZE"));
    config.set("BLOCK_SIZE", "64k").set("COMM_SIZE", "16k");
    error = error_of([&] { pool pool(config); });
    REQUIRE(error.status() == UCXPOOL_ERR_INVALID_PARAM);
    config.set("COMM_SIZE", "8m").set_secret("a secret of 20 bytes");
    REQUIRE(pool(config).query().block_size == 64 << 10);
}

TEST(failed_requests_throw_their_detail)
{
    two              two;
    std::vector<int> sent = numbers(1000), few(10);
    request          recv = two.b_to_a.recv(few, 1);
    request          send = two.a_to_b.send(sent, 1);

    REQUIRE(two.end_of(recv) == UCXPOOL_ERR_TRUNCATED);
    (void)two.end_of(send);

    ucxpool::error error = error_of([&] { recv.wait(); });

    REQUIRE(error.status() == UCXPOOL_ERR_TRUNCATED);
    REQUIRE(error.code() == std::errc::message_size);
    REQUIRE(std::string(error.detail()) == recv.query().detail);
}

TEST(waits_end_with_false_or_the_deadline)
{
    two              two;
    std::vector<int> few(10);
    request          recv = two.b_to_a.recv(few, 1);

    REQUIRE(!recv.wait(0ns));
    REQUIRE(!recv.wait(-1ns));
    REQUIRE(recv.wait_status(1us) == UCXPOOL_INPROGRESS);
    recv = two.b_to_a.recv(few, 2, ~std::uint64_t(0),
                           ucxpool::request_params().timeout(1ms));
    REQUIRE(error_of([&] { recv.wait(); }).code() == std::errc::timed_out);
}

/* --- handles -------------------------------------------------------------- */

TEST(handles_may_outlive_their_pool)
{
    auto             two = std::make_unique<struct two>();
    std::vector<int> memory(1 << 20);
    auto             buffer   = two->b.alloc(100);
    auto             window   = two->b.create_window(memory.data(), 4096);
    request          recv     = two->b.recv(memory, 1);
    channel          kept     = std::move(two->b_to_a);
    auto             listener = std::move(two->listener);
    auto remote = two->a_to_b.import(window.blob(UCXPOOL_WINDOW_READ));

    REQUIRE(buffer.size() == 100 && buffer.data() != nullptr);
    two.reset();
    REQUIRE(!buffer && !window && !recv && !kept && !listener && !remote);
    REQUIRE(buffer.data() == nullptr && buffer.size() == 0);
    REQUIRE(recv.test() == UCXPOOL_ERR_INVALID_PARAM);
    REQUIRE(error_of([&] { (void)kept.send(memory, 1); }).status() ==
            UCXPOOL_ERR_INVALID_PARAM);
    REQUIRE(error_of([&] { (void)kept.recv(memory, 1); }).status() ==
            UCXPOOL_ERR_INVALID_PARAM);
    REQUIRE(listener.port() == 0);
}

TEST(moved_from_handles_are_empty)
{
    two                  two;
    int                  number = 7;
    request              send   = two.a_to_b.send({&number, sizeof(number)}, 1);
    request              moved  = std::move(send);
    channel              to_b   = std::move(two.a_to_b);
    pool                 a      = std::move(two.a);
    const int            none   = 0;
    ucxpool::batch       batch;
    std::vector<request> requests;

    static_assert(!std::is_copy_constructible_v<channel>);
    static_assert(!std::is_copy_constructible_v<pool>);
    static_assert(std::is_nothrow_move_constructible_v<request>);
    static_assert(std::is_nothrow_destructible_v<request>);
    REQUIRE(!send && send.get() == nullptr && moved && to_b && a);
    REQUIRE(!two.a_to_b && !two.a && two.a.get() == nullptr);
    REQUIRE(error_of([&] { send.wait(); }).status() ==
            UCXPOOL_ERR_INVALID_PARAM);
    REQUIRE(error_of([&] {
                (void)two.a_to_b.send({&none, 0}, 1);
            }).status() == UCXPOOL_ERR_INVALID_PARAM);
    /* Not a receive from any channel. */
    REQUIRE(error_of([&] {
                (void)two.a_to_b.recv({&number, 4}, 1);
            }).status() == UCXPOOL_ERR_INVALID_PARAM);
    REQUIRE(error_of([&] { (void)two.a_to_b.probe(); }).status() ==
            UCXPOOL_ERR_INVALID_PARAM);
    REQUIRE(error_of([&] { (void)two.a.connect("127.0.0.1:1"); }).status() ==
            UCXPOOL_ERR_INVALID_PARAM);
    REQUIRE(two.a.progress() == 0);
    REQUIRE(error_of([&] { (void)two.a.stats(UCXPOOL_STATS_JSON); }).status() ==
            UCXPOOL_ERR_INVALID_PARAM);
    batch.send(to_b, {&number, sizeof(number)}, 1);
    REQUIRE(error_of([&] { batch.post(two.a, requests); }).status() ==
            UCXPOOL_ERR_INVALID_PARAM);
    REQUIRE(requests.empty() && batch.size() == 1);
    send.cancel();
    send.detach();
    two.a_to_b.abort();
    moved.wait();
}

TEST(assigning_a_channel_closes_the_previous_one)
{
    two two;

    two.a_to_b = channel();
    while (two.b_to_a.query().state != UCXPOOL_CHANNEL_CLOSED) {
        two.progress();
    }
    two.a = pool();
    REQUIRE(two.a && two.a.query().num_regions > 0);
}

TEST(destroying_a_request_releases_its_memory)
{
    two two;
    {
        std::vector<int> memory(1 << 20);
        request          recv = two.b_to_a.recv(memory, 1);

        REQUIRE(recv.test() == UCXPOOL_INPROGRESS);
    }
    {
        std::vector<int> memory = numbers(1 << 20);
        request          send   = two.a_to_b.send(memory, 1);

        two.progress();
        REQUIRE(send.test() == UCXPOOL_INPROGRESS);
    }
    REQUIRE(two.a.stat("messages_failed") == 1);
    REQUIRE(two.b.stat("messages_failed") == 1);

    int     sent = 5, got = 0;
    request recv = two.b_to_a.recv({&got, sizeof(got)}, 2);
    request send = two.a_to_b.send({&sent, sizeof(sent)}, 2);

    REQUIRE(two.end_of(recv) == UCXPOOL_OK && got == 5);
    REQUIRE(two.end_of(send) == UCXPOOL_OK);
}

/* The peer stops at several moments of the transfer. If the destructor waited
 * for it, std::terminate() would end this program. */
TEST(destroying_a_request_does_not_wait_for_a_stopped_peer)
{
    std::vector<int> sent = numbers(16 << 20), got(sent.size());

    for (int rounds : {0, 1, 2, 4, 8}) {
        two              two;
        ucxpool_status_t status = UCXPOOL_INPROGRESS;
        auto observe = [](ucxpool_request_t *, ucxpool_status_t result,
                          void *arg) {
            *static_cast<ucxpool_status_t *>(arg) = result;
        };
        request send = two.a_to_b.send(
            sent, 1, ucxpool::request_params().callback(observe, &status));
        request recv = two.b_to_a.recv(got, 1);

        for (int i = 0; i < rounds; i++) {
            two.progress();
        }
        REQUIRE(status == UCXPOOL_INPROGRESS);
        send.reset();
        REQUIRE(status == UCXPOOL_ERR_CANCELED);
    }
}

TEST(an_exception_ends_requests_before_their_memory)
{
    two  two;
    auto fails = [&] {
        std::vector<int> memory = numbers(1 << 20);
        request          send   = two.a_to_b.send(memory, 1);

        throw std::runtime_error("planned");
    };

    try {
        fails();
    } catch (const std::runtime_error &error) {
        REQUIRE(has(error.what(), "planned"));
    }
    REQUIRE(two.a.stat("messages_failed") == 1);
}

TEST(statistics_are_text)
{
    two two;

    REQUIRE(
        has(two.a.stats(UCXPOOL_STATS_JSON).c_str(), "\"messages_sent\":0"));
    REQUIRE(has(two.a.stats(UCXPOOL_STATS_OPENMETRICS).c_str(), "# EOF\n"));
}

TEST(detached_requests_continue)
{
    two              two;
    std::vector<int> sent = numbers(1 << 20), got(sent.size());

    two.a_to_b.send(sent, 1).detach();
    REQUIRE(two.end_of(two.b_to_a.recv(got, 1)) == UCXPOOL_OK);
    REQUIRE(got == sent);
}

TEST(raw_requests_can_be_adopted)
{
    two                two;
    int                sent = 5, got = 0;
    ucxpool_request_t *raw  = nullptr;
    request            recv = two.b.recv({&got, sizeof(got)}, 1);

    REQUIRE(ucxpool_send_buffer(two.a_to_b.get(), &sent, sizeof(sent), 1,
                                nullptr, &raw) == UCXPOOL_OK);

    request send(two.a_to_b, raw);

    REQUIRE(two.end_of(send) == UCXPOOL_OK);
    REQUIRE(two.end_of(recv) == UCXPOOL_OK && got == 5);
    raw = recv.release();
    REQUIRE(!recv && raw != nullptr);
    ucxpool_request_release(raw);
}

/* One handle of each kind. */
struct handles : two {
    handles()
    {
        while (!(message = b_to_a.probe(1))) {
            progress();
        }
    }

    std::vector<int>       memory = numbers(10000), got = numbers(10000);
    ucxpool::comm_buffer   buffer = a.alloc(4096);
    ucxpool::window        window = b.create_window(memory.data(), 4000);
    ucxpool::remote_window remote =
        a_to_b.import(window.blob(UCXPOOL_WINDOW_READ));
    request          recv = b_to_a.recv(got, 2);
    request          send = a_to_b.send(memory, 1);
    ucxpool::message message;
};

TEST(handles_do_nothing_in_a_forked_child)
{
    auto        all    = std::make_unique<handles>();
    const pid_t child  = fork();
    int         status = -1;

    if (child == 0) {
        alarm(60);
        all.reset();
        _exit(0);
    }
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);

    std::vector<int> got(all->memory.size());
    request          recv = all->message.recv(got);

    REQUIRE(all->end_of(recv) == UCXPOOL_OK && got == all->memory);
    REQUIRE(all->end_of(all->send) == UCXPOOL_OK);
    std::memset(all->buffer.data(), 3, all->buffer.size());
    all->send = all->a_to_b.send(all->buffer, 2);
    REQUIRE(all->end_of(all->recv) == UCXPOOL_OK && all->got[0] == 0x03030303);
    all->send = all->b_to_a.send(all->memory, 3);
    REQUIRE(all->end_of(all->a_to_b.recv(got, 3)) == UCXPOOL_OK);
    REQUIRE(all->end_of(all->remote.read({0, 4000}, got)) == UCXPOOL_OK);

    channel again =
        all->a.connect("127.0.0.1:" + std::to_string(all->listener.port()));

    while (!all->listener.accept()) {
        all->progress();
    }
}

/* --- messages ------------------------------------------------------------- */

TEST(messages_go_there_and_back)
{
    const char *wire = std::getenv("UCXPOOL_WIRE");
    two         two;

    REQUIRE(two.a_to_b.query().wire ==
            (std::string(wire) == "ucx" ? UCXPOOL_WIRE_UCX : UCXPOOL_WIRE_MAP));
    for (std::size_t count : {0, 1, 1000, 3000000}) {
        std::vector<int> sent = numbers(count), got(count), back(count);
        request          recv = two.b_to_a.recv(got, 1);
        request          last = two.a_to_b.recv(back, 2);
        request          send = two.a_to_b.send(sent, 1);

        REQUIRE(two.end_of(recv) == UCXPOOL_OK);
        REQUIRE(two.end_of(send) == UCXPOOL_OK);
        send = two.b_to_a.send(got, 2);
        REQUIRE(two.end_of(last) == UCXPOOL_OK);
        REQUIRE(two.end_of(send) == UCXPOOL_OK);
        REQUIRE(back == sent && last.length() == count * sizeof(int));
    }
}

TEST(containers_segments_and_pieces_are_data)
{
    two                                  two;
    std::array<char, 12>                 got{};
    std::string                          hello   = "hello ";
    const char                           world[] = {'w', 'o', 'r', 'l', 'd'};
    std::string_view                     view    = "world";
    std::vector<ucxpool_const_segment_t> list = {{hello.data(), 6}, {world, 5}};
    ::iovec         vectors[] = {{hello.data(), 6}, {got.data(), 0}};
    const void     *pieces[]  = {hello.data() + 1, view.data() + 1};
    ucxpool_range_t ranges[]  = {ucxpool_range_memory(world, 5)};
    auto exchange = [&](const ucxpool::source &what, std::size_t length) {
        got.fill(0);

        request recv = two.b_to_a.recv(got, 1);
        request send = two.a_to_b.send(what, 1);

        REQUIRE(two.end_of(recv) == UCXPOOL_OK);
        REQUIRE(two.end_of(send) == UCXPOOL_OK && recv.length() == length);
        return std::string(got.data(), length);
    };

    REQUIRE(exchange(hello, 6) == "hello ");
    REQUIRE(exchange(world, 5) == "world");
    REQUIRE(exchange(view.substr(1), 4) == "orld");
    REQUIRE(exchange(list, 11) == "hello world");
    REQUIRE(exchange(vectors, 6) == "hello ");
    REQUIRE(exchange(ranges, 5) == "world");
    REQUIRE(exchange(ucxpool::source::pieces(pieces, 2, 4), 8) == "elloorld");
    REQUIRE(exchange(ucxpool_source_buffer(world, 3), 3) == "wor");
#ifdef __cpp_lib_span
    REQUIRE(exchange(std::span<const char>(world).first(2), 2) == "wo");
    REQUIRE(exchange(std::as_bytes(std::span<const char>(world)), 5) ==
            "world");
#endif

    char    first[6], second[5];
    ::iovec parts[] = {{first, 6}, {second, 5}};
    request recv    = two.b_to_a.recv(parts, 1);
    request send    = two.a_to_b.send(list, 1);

    REQUIRE(two.end_of(recv) == UCXPOOL_OK && two.end_of(send) == UCXPOOL_OK);
    REQUIRE(std::memcmp(first, "hello ", 6) == 0);
    REQUIRE(std::memcmp(second, "world", 5) == 0);
}

TEST(probed_messages_are_received_or_refused)
{
    two              two;
    std::vector<int> sent = numbers(100000), got(sent.size());
    request          send = two.a_to_b.send(
                 sent, 7, ucxpool::request_params().metadata("about it"));
    ucxpool::message message;
    auto             arrive = [&] {
        REQUIRE(!two.b.probe(8));
        while (!(message = two.b_to_a.probe(7))) {
            two.progress();
        }
    };

    arrive();
    REQUIRE(message.query().tag == 7);
    REQUIRE(message.query().length == sent.size() * sizeof(int));

    /* Too little memory: the message is not lost. */
    REQUIRE(error_of([&] {
                (void)message.recv({got.data(), 1});
            }).status() == UCXPOOL_ERR_TRUNCATED);
    REQUIRE(message);

    request recv = message.recv(got);

    REQUIRE(!message);
    REQUIRE(two.end_of(recv) == UCXPOOL_OK && two.end_of(send) == UCXPOOL_OK);
    REQUIRE(got == sent && recv.metadata() == "about it");
    send = two.a_to_b.send(sent, 7);
    arrive();
    message.refuse("not now");
    REQUIRE(two.end_of(send) == UCXPOOL_ERR_REFUSED);
    REQUIRE(has(send.query().detail, "not now"));
    send = two.a_to_b.send(sent, 7);
    arrive();
    message = {};
    REQUIRE(two.end_of(send) == UCXPOOL_ERR_REFUSED);
    REQUIRE(has(error_of([&] { send.wait(); }).detail(), "dropped"));
}

TEST(comm_buffers_are_sent_in_place)
{
    two  two;
    auto from = two.a.alloc(1 << 20);
    auto to   = two.b.alloc(1 << 20);

    std::memset(from.data(), 3, from.size());

    request recv = two.b_to_a.recv(to, 1);
    request send = two.a_to_b.send(from, 1);

    REQUIRE(two.end_of(recv) == UCXPOOL_OK && two.end_of(send) == UCXPOOL_OK);
    REQUIRE(std::memcmp(from.data(), to.data(), to.size()) == 0);
    REQUIRE(error_of([&] { (void)two.a.alloc(std::size_t(1) << 40); }).code() ==
            std::errc::no_buffer_space);
}

TEST(flush_ends_after_earlier_sends)
{
    two              two;
    std::vector<int> sent  = numbers(1 << 20), got(sent.size());
    request          send  = two.a_to_b.send(sent, 1);
    request          flush = two.a_to_b.flush();

    REQUIRE(flush.test() == UCXPOOL_INPROGRESS);
    request recv = two.b_to_a.recv(got, 1);
    REQUIRE(two.end_of(flush) == UCXPOOL_OK);
    REQUIRE(send.test() == UCXPOOL_OK);
    REQUIRE(two.end_of(recv) == UCXPOOL_OK);
}

/* --- channels, windows, event loops --------------------------------------- */

TEST(listeners_accept_peers)
{
    pool a, b;
    auto listener = b.listen("127.0.0.1:0");

    REQUIRE(listener.port() != 0);
    REQUIRE(!listener.accept());
    REQUIRE(error_of([&] {
                (void)b.listen("127.0.0.1:" + std::to_string(listener.port()));
            }).code() == std::errc::address_in_use);
}

TEST(channels_connect_over_addresses)
{
    pool                     a, b;
    std::string              to_a = a.address(), to_b = b.address();
    ucxpool_channel_params_t params{};

    params.field_mask     = UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS;
    params.address        = to_b.data();
    params.address_length = to_b.size();
    channel a_to_b        = a.create_channel(params);
    params.address        = to_a.data();
    params.address_length = to_a.size();
    channel b_to_a        = b.create_channel(params);

    while (!a_to_b.wait(0ns) || !b_to_a.wait(0ns)) {
        a.progress();
        b.progress();
    }
}

TEST(a_lost_peer_throws_in_wait)
{
    two two;

    two.b_to_a.abort();
    REQUIRE(!two.b_to_a);
    while (two.a_to_b.query().state == UCXPOOL_CHANNEL_OPEN) {
        two.progress();
    }
    REQUIRE(error_of([&] { two.a_to_b.wait(); }).status() ==
            UCXPOOL_ERR_CLOSED);
}

TEST(windows_are_read_and_written)
{
    two              two;
    std::vector<int> memory = numbers(10000), got(100);
    auto             window =
        two.b.create_window(memory.data(), memory.size() * sizeof(int));
    auto remote = two.a_to_b.import(
        window.blob(UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE));
    const std::uint64_t length   = got.size() * sizeof(int);
    ucxpool_place_t     places[] = {{0, length / 2}, {4000, length / 2}};

    REQUIRE(two.end_of(remote.read({400, length}, got)) == UCXPOOL_OK);
    REQUIRE(got[0] == 101 && got[99] == 200);
    REQUIRE(two.end_of(remote.read(ucxpool_places(places, 2), got)) ==
            UCXPOOL_OK);
    REQUIRE(got[0] == 1 && got[99] == 1050);
    std::fill(got.begin(), got.end(), -1);
    REQUIRE(two.end_of(remote.write({0, length}, got)) == UCXPOOL_OK);
    REQUIRE(memory[0] == -1 && memory[99] == -1 && memory[100] == 101);
    REQUIRE(remote.query().status == UCXPOOL_OK);
    REQUIRE(remote.query().length == memory.size() * sizeof(int));
    REQUIRE(window.query().num_peers == 1);
    REQUIRE(error_of([&] {
                (void)remote.read({1 << 20, length}, got);
            }).status() == UCXPOOL_ERR_INVALID_PARAM);

    auto read_only = two.a_to_b.import(window.blob(UCXPOOL_WINDOW_READ));

    REQUIRE(error_of([&] {
                (void)read_only.write({0, length}, got);
            }).code() == std::errc::permission_denied);
    while (!window.revoke(0ns)) {
        two.progress();
    }
    REQUIRE(error_of([&] { (void)window.blob(UCXPOOL_WINDOW_READ); }).code() ==
            std::errc::operation_canceled);
}

TEST(event_loops_arm_the_descriptor)
{
    two two;

    REQUIRE(two.a.event_fd() >= 0);
    while (!two.a.arm()) {
        two.a.progress();
    }
}

/* --- batches -------------------------------------------------------------- */

TEST(a_batch_posts_operations_of_all_kinds)
{
    two              two;
    std::vector<int> memory = numbers(1000), sent = numbers(10);
    std::vector<int> got(10), any(10), read(10), written(10, 7);
    auto             window = two.b.create_window(memory.data(), 4000);
    auto             remote = two.a_to_b.import(
                    window.blob(UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE));
    const ucxpool_place_t places[] = {{20, 20}, {0, 20}};
    ucxpool::batch        batch, other;
    std::vector<request>  requests;

    other.recv(two.b_to_a, got, 1).recv(any, 2);
    other.post(two.b, requests);
    batch.send(two.a_to_b, sent, 2)
        .send(two.a_to_b, sent, 1, ucxpool::request_params().metadata("text"))
        .read(remote, ucxpool_places(places, 2), read)
        .write(remote, {400, 40}, written);
    REQUIRE(batch.size() == 4);
    batch.post(two.a, requests);
    REQUIRE(batch.size() == 0 && requests.size() == 6);
    for (const request &request : requests) {
        REQUIRE(two.end_of(request) == UCXPOOL_OK);
    }
    REQUIRE(got == sent && any == sent && requests[0].metadata() == "text");
    REQUIRE(read[0] == 6 && read[9] == 5);
    REQUIRE(memory[99] == 100 && memory[100] == 7 && memory[109] == 7);
    batch.post(two.a, requests);
    REQUIRE(requests.size() == 6);
}

TEST(a_batch_copies_a_single_offset)
{
    two              two;
    std::vector<int> memory = numbers(100), first(5), second(5);
    auto             window = two.b.create_window(memory.data(), 400);
    auto           remote = two.a_to_b.import(window.blob(UCXPOOL_WINDOW_READ));
    std::uint64_t  offset = 40;
    ucxpool::batch batch;
    std::vector<request> requests;

    batch.read(remote, ucxpool_places_even(&offset, 1, 20), first);
    offset = 80;
    batch.read(remote, ucxpool_places_even(&offset, 1, 20), second);
    offset = 399;
    batch.post(two.a, requests);
    REQUIRE(two.end_of(requests[0]) == UCXPOOL_OK);
    REQUIRE(two.end_of(requests[1]) == UCXPOOL_OK);
    REQUIRE(first[0] == memory[10] && second[0] == memory[20]);
}

TEST(a_batch_continues_after_a_refused_operation)
{
    two                  two;
    channel              empty;
    std::vector<int>     sent = numbers(10), first(10), last(10);
    ucxpool::batch       batch;
    std::vector<request> requests;
    request              recv_first = two.b_to_a.recv(first, 1);
    request              recv_last  = two.b_to_a.recv(last, 3);

    batch.send(two.a_to_b, sent, 1);
    batch.send(two.b_to_a, sent, 2); /* of another pool */
    batch.send(two.a_to_b, sent, 3);
    REQUIRE(error_of([&] { batch.recv(empty, first, 1); }).code() ==
            std::errc::invalid_argument);

    ucxpool::error error = error_of([&] { batch.post(two.a, requests); });

    REQUIRE(error.status() == UCXPOOL_ERR_INVALID_PARAM);
    REQUIRE(has(error.detail(), "pool"));
    REQUIRE(requests.size() == 1 && batch.size() == 1);
    REQUIRE(two.end_of(recv_first) == UCXPOOL_OK && first == sent);
    REQUIRE(two.end_of(requests[0]) == UCXPOOL_OK);
    batch.post_detached(two.a);
    REQUIRE(batch.size() == 0);
    REQUIRE(two.end_of(recv_last) == UCXPOOL_OK && last == sent);
}

/* --- coroutines ----------------------------------------------------------- */

#ifdef __cpp_impl_coroutine

/* A coroutine that begins at once. The object owns it. */
class task
{
public:
    struct promise_type {
        task get_return_object()
        {
            return task(
                std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_never  initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void                return_void() {}
        void unhandled_exception() { thrown = std::current_exception(); }

        std::exception_ptr thrown;
    };

    explicit task(std::coroutine_handle<promise_type> coroutine)
        : coroutine_(coroutine)
    {
    }
    task(task &&other) noexcept
        : coroutine_(std::exchange(other.coroutine_, nullptr))
    {
    }
    ~task()
    {
        if (coroutine_) {
            coroutine_.destroy();
        }
    }

    bool is_done() const { return coroutine_.done(); }

    /* Throw what the coroutine has thrown. */
    void check() const
    {
        REQUIRE(is_done());
        if (coroutine_.promise().thrown) {
            std::rethrow_exception(coroutine_.promise().thrown);
        }
    }

private:
    std::coroutine_handle<promise_type> coroutine_;
};

static task send_one(const channel &channel, int number, std::size_t count,
                     std::size_t &num_ended)
{
    std::vector<int> sent(count, number);
    auto             ended =
        co_await ucxpool::async_send(channel, sent, (std::uint64_t)number);

    REQUIRE(ended.test() == UCXPOOL_OK);
    num_ended++;
}

static task recv_one(const pool &pool, int number, std::size_t count,
                     std::size_t &num_ended)
{
    std::vector<int> got(count);
    auto ended = co_await ucxpool::async_recv(pool, got, (std::uint64_t)number);

    REQUIRE(ended.length() == count * sizeof(int));
    REQUIRE(got == std::vector<int>(count, number));
    num_ended++;
}

/* All receives are in flight before the first send. */
static void exchange_many(std::size_t count)
{
    const int         num = 1000;
    two               two;
    std::size_t       num_ended = 0;
    std::vector<task> tasks;

    for (int i = 0; i < num; i++) {
        tasks.push_back(recv_one(two.b, i, count, num_ended));
    }
    REQUIRE(num_ended == 0);
    for (int i = num - 1; i >= 0; i--) {
        tasks.push_back(send_one(two.a_to_b, i, count, num_ended));
    }
    while (num_ended < 2 * num) {
        two.progress();
    }
    for (const task &task : tasks) {
        task.check();
    }
}

TEST(a_thousand_short_messages_are_awaited)
{
    exchange_many(10);
}

TEST(a_thousand_long_messages_are_awaited)
{
    exchange_many(10000);
}

static task ping(const channel &channel, int rounds,
                 std::atomic<int> &num_ended)
{
    int number = 0;

    for (int i = 0; i < rounds; i++) {
        co_await ucxpool::async_send(channel, {&number, sizeof(number)}, 1);
        co_await ucxpool::async_recv(channel, {&number, sizeof(number)}, 2);
    }
    REQUIRE(number == rounds);
    num_ended++;
}

static task pong(const channel &channel, int rounds,
                 std::atomic<int> &num_ended)
{
    int number = 0;

    for (int i = 0; i < rounds; i++) {
        co_await ucxpool::async_recv(channel, {&number, sizeof(number)}, 1);
        number++;
        co_await ucxpool::async_send(channel, {&number, sizeof(number)}, 2);
    }
    num_ended++;
}

TEST(coroutines_take_turns)
{
    two              two;
    std::atomic<int> num_ended{0};
    task             one   = ping(two.a_to_b, 10000, num_ended);
    task             other = pong(two.b_to_a, 10000, num_ended);

    while (num_ended < 2) {
        two.progress();
    }
    one.check();
    other.check();
}

/* A coroutine may be resumed in one thread while the other one posts. */
TEST(coroutines_continue_in_several_threads)
{
    two              two;
    std::atomic<int> num_ended{0};
    auto             progress = [&] {
        while (num_ended < 2) {
            two.progress();
        }
    };
    std::thread other_thread(progress);
    task        one   = ping(two.a_to_b, 1000, num_ended);
    task        other = pong(two.b_to_a, 1000, num_ended);

    progress();
    other_thread.join();
    one.check();
    other.check();
}

/* In the second post, another thread completes the request. */
static task recv_twice(const two &two)
{
    int  got     = 0;
    bool is_last = false;
    auto post    = [&](auto given, auto raw_p) {
        ucxpool_status_t status =
            ucxpool_recv_buffer(two.b.get(), two.b_to_a.get(), &got,
                                   sizeof(got), 1, ~0ull, given, raw_p);

        while (is_last && ucxpool_request_test(*raw_p) != UCXPOOL_OK) {
            two.progress();
        }
        return status;
    };
    ucxpool::detail::operation recv(two.b_to_a, post, {});

    REQUIRE((co_await recv).length() == sizeof(got) && got == 1);
    is_last = true;
    REQUIRE((co_await recv).length() == sizeof(got) && got == 2);
}

TEST(an_operation_can_be_awaited_again)
{
    two  two;
    int  sent[] = {1, 2};
    task recv   = recv_twice(two);

    REQUIRE(!recv.is_done());
    for (int &number : sent) {
        two.a_to_b.send({&number, sizeof(number)}, 1).detach();
    }
    while (!recv.is_done()) {
        two.progress();
    }
    recv.check();
}

static task recv_truncated(const channel &channel, int &status)
{
    char few[1];

    try {
        co_await ucxpool::async_recv(channel, few, 1);
    } catch (const ucxpool::error &error) {
        status = error.status();
        REQUIRE(has(error.detail(), "byte"));
    }
}

TEST(errors_are_thrown_in_the_coroutine)
{
    two     two;
    int     status = 0;
    task    recv   = recv_truncated(two.b_to_a, status);
    request send   = two.a_to_b.send(std::string_view("long"), 1);

    while (!recv.is_done()) {
        two.progress();
    }
    recv.check();
    REQUIRE(status == UCXPOOL_ERR_TRUNCATED);
    (void)two.end_of(send);

    /* A request that cannot be posted. */
    channel     none;
    std::size_t num_ended = 0;
    task        task      = send_one(none, 1, 1, num_ended);

    REQUIRE(task.is_done());
    REQUIRE(error_of([&] { task.check(); }).status() ==
            UCXPOOL_ERR_INVALID_PARAM);
}

TEST(destroying_a_coroutine_cancels_its_request)
{
    two         two;
    std::size_t num_ended = 0;
    {
        task recv = recv_one(two.b, 1, 100, num_ended);

        REQUIRE(!recv.is_done());
    }
    REQUIRE(two.b.stat("messages_failed") == 1 && num_ended == 0);

    request send = two.a_to_b.send(std::string_view("later"), 1);

    REQUIRE(two.end_of(send) == UCXPOOL_OK);
}

TEST(destroying_the_pool_resumes_its_coroutines)
{
    auto        two       = std::make_unique<struct two>();
    std::size_t num_ended = 0;
    task        recv      = recv_one(two->b, 1, 100, num_ended);

    two->b.reset();
    REQUIRE(recv.is_done());
    REQUIRE(error_of([&] { recv.check(); }).code() ==
            std::errc::operation_canceled);
}

static task recv_two(two &two)
{
    std::vector<int> first(100), second(1 << 20), sent = numbers(1 << 20);
    request          recv    = two.b.recv(first, 1);
    channel          channel = std::move(two.b_to_a);
    request          send    = channel.send(sent, 3);

    co_await ucxpool::async_recv(two.b, second, 2);
}

TEST(a_coroutine_releases_its_handles_while_its_pool_is_destroyed)
{
    two  two;
    task recv = recv_two(two);

    two.b.reset();
    REQUIRE(recv.is_done());
    REQUIRE(error_of([&] { recv.check(); }).code() ==
            std::errc::operation_canceled);
}

static task copy_window(const ucxpool::remote_window &remote, int &sum)
{
    std::vector<int>      got(100);
    const ucxpool_place_t place{0, 400}, other{400, 400};

    co_await ucxpool::async_read(remote, ucxpool_places(&place, 1), got);
    sum = std::accumulate(got.begin(), got.end(), 0);
    co_await ucxpool::async_write(remote, ucxpool_places(&other, 1), got);
}

TEST(windows_are_awaited)
{
    two              two;
    std::vector<int> memory = numbers(200);
    auto             window = two.b.create_window(memory.data(), 800);
    auto             remote = two.a_to_b.import(
                    window.blob(UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE));
    int  sum  = 0;
    task task = copy_window(remote, sum);

    while (!task.is_done()) {
        two.progress();
    }
    task.check();
    REQUIRE(sum == 5050 && memory[100] == 1 && memory[199] == 100);
}

#endif

int main()
{
    for (const test &test : tests()) {
        std::printf("%s\n", test.name);
        std::fflush(stdout);
        test.run();
    }
    std::printf("%zu tests\n", tests().size());
    return 0;
}
