/* cpp_batch - two pools of one process exchange 1,000 numbers, each as one
 * message. Each side posts its operations in one call. */
#include <ucxpool/ucxpool.hpp>

#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

static void exchange(const ucxpool::pool &client, const ucxpool::pool &server,
                     const ucxpool::channel &to_server)
{
    std::vector<int>              sent(1000), got(sent.size());
    ucxpool::batch                receives, batch;
    std::vector<ucxpool::request> requests;

    std::iota(sent.begin(), sent.end(), 1);
    for (std::size_t i = 0; i < got.size(); i++) {
        receives.recv({&got[i], sizeof(int)}, i);
    }
    receives.post(server, requests);

    for (std::size_t i = 0; i < sent.size(); i++) {
        batch.send(to_server, {&sent[i], sizeof(int)}, i);
    }
    batch.post(client, requests);

    for (const ucxpool::request &request : requests) {
        while (request.test() == UCXPOOL_INPROGRESS) {
            client.progress();
            server.progress();
        }
        request.wait(); /* throws if the request has failed */
    }
    std::printf("the sum of %zu numbers is %d\n", got.size(),
                std::accumulate(got.begin(), got.end(), 0));
}

int main()
{
    try {
        ucxpool::pool     client, server;
        ucxpool::listener listener = server.listen("127.0.0.1:0");
        ucxpool::channel  to_server =
            client.connect("127.0.0.1:" + std::to_string(listener.port()));
        ucxpool::channel to_client;

        while (!(to_client = listener.accept())) {
            client.progress();
            server.progress();
        }
        exchange(client, server, to_server);
    } catch (const ucxpool::error &error) {
        std::fprintf(stderr, "cpp_batch: %s\n", error.what());
        return 1;
    }
    return 0;
}
