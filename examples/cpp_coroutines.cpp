/* cpp_coroutines - two pools of one process exchange 1,000 messages. Each
 * message has a coroutine on both sides. */
#include <ucxpool/ucxpool.hpp>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

/* A coroutine that begins at once and runs on its own. The library has no type
 * for this: use the one of your framework. */
struct detached {
    struct promise_type {
        detached           get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void               return_void() {}
        void               unhandled_exception() { std::terminate(); }
    };
};

static detached ask(const ucxpool::channel &channel, std::uint64_t tag,
                    int &num_open)
{
    std::vector<int> numbers(1000, static_cast<int>(tag));

    try {
        co_await ucxpool::async_send(channel, numbers, tag);
        co_await ucxpool::async_recv(channel, numbers, tag);
    } catch (const ucxpool::error &error) {
        std::fprintf(stderr, "message %u: %s\n", (unsigned)tag, error.what());
    }
    num_open--;
}

static detached answer(const ucxpool::channel &channel, std::uint64_t tag,
                       int &num_open)
{
    std::vector<int> numbers(1000);

    co_await ucxpool::async_recv(channel, numbers, tag);
    co_await ucxpool::async_send(channel, numbers, tag);
    num_open--;
}

/* Returns the next peer of the listener. */
static ucxpool::channel accept_peer(const ucxpool::listener &listener,
                                    const ucxpool::pool     &peer)
{
    ucxpool::channel channel;

    while (!(channel = listener.accept())) {
        peer.progress();
        ucxpool_progress(listener.pool());
    }
    return channel;
}

int main()
{
    try {
        ucxpool::pool     client, server;
        ucxpool::listener listener = server.listen("127.0.0.1:0");
        ucxpool::channel  to_server =
            client.connect("127.0.0.1:" + std::to_string(listener.port()));
        ucxpool::channel to_client = accept_peer(listener, client);
        int              num_open  = 2000;

        for (std::uint64_t tag = 0; tag < 1000; tag++) {
            answer(to_client, tag, num_open);
            ask(to_server, tag, num_open);
        }
        while (num_open > 0) {
            client.progress();
            server.progress();
        }
        std::printf("1000 messages were returned\n");
    } catch (const ucxpool::error &error) {
        std::fprintf(stderr, "cpp_coroutines: %s\n", error.what());
        return 1;
    }
    return 0;
}
