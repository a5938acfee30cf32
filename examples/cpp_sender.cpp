/* cpp_sender HOST:PORT WORD... - send scattered words as one message to
 * examples/receiver, as examples/sender does. */
#include <ucxpool/ucxpool.hpp>

#include <cstdio>
#include <cstring>
#include <vector>

static void send_words(const char *where, char **words, int num_words)
{
    std::vector<ucxpool_const_segment_t> segments;

    for (int i = 0; i < num_words; i++) {
        segments.push_back({words[i], std::strlen(words[i])});
    }

    ucxpool::pool    pool;
    ucxpool::channel channel = pool.connect(where);

    channel.send(segments, 1).wait();
}

int main(int argc, char **argv)
{
    try {
        send_words(argc > 1 ? argv[1] : "", argv + 2, argc > 2 ? argc - 2 : 0);
    } catch (const ucxpool::error &error) {
        std::fprintf(stderr, "cpp_sender: %s\n", error.what());
        return 1;
    }
    return 0;
}
