/*
 * The library for C++17 and later: handles that release their objects,
 * exceptions with the error's detail, data from containers and spans, and
 * coroutines (C++20 and later). This header includes ucxpool.h and is a thin
 * layer over its functions; link with libucxpool.
 *
 *     ucxpool::pool        pool;
 *     ucxpool::channel     channel = pool.connect("127.0.0.1:7000");
 *     std::vector<double>  numbers = ...;
 *     channel.send(numbers, 1).wait();
 *
 * Handles. A handle owns one object of the library and releases it in its
 * destructor, which never throws. Handles can be moved, but not copied. get()
 * returns the pointer for the C functions, or nullptr if the handle has been
 * moved from, or if its pool has been destroyed. The C functions report such a
 * nullptr as UCXPOOL_ERR_INVALID_PARAM, so using such a handle is an error, but
 * not undefined behavior. Handles may be destroyed in any order. If a handle is
 * destroyed after its pool, its destructor does nothing, because
 * ucxpool_destroy() has released the object. In a forked child of the process
 * that created the pool, destructors release nothing. Otherwise the destructors
 * do the following:
 *
 *     pool           destroys the pool: waits at most CLOSE_TIMEOUT and 2 s
 *     channel        closes the channel without waiting. Its requests continue
 *     listener       stops listening
 *     window         destroys the window: waits at most CLOSE_TIMEOUT and 1 s
 *     remote_window  releases the window. Its reads and writes continue
 *     message        refuses the message
 *     request        cancels the request and waits until it ends: see below
 *     comm_buffer    frees the memory
 *
 * Lifetime of data. The memory of a send, receive, read or write must stay
 * valid until its request has ended. Declare the memory before the request. The
 * request is then destroyed first, even if an exception is thrown, and its
 * destructor waits until the library no longer uses the memory.
 *
 * Errors. A function that fails throws ucxpool::error, unless it is noexcept.
 * request::wait_status() returns the result of a request without throwing. To
 * send or receive without exceptions, call the C function and adopt its result:
 * `ucxpool::request request(channel, raw)`.
 *
 * Threads. The rules of pool.h apply. In addition, a handle must not be moved
 * or reset while another thread uses it. The coroutines are described below.
 */
#ifndef UCXPOOL_UCXPOOL_HPP
#define UCXPOOL_UCXPOOL_HPP

#include <ucxpool/ucxpool.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <pthread.h>
#include <sys/uio.h>

#if __has_include(<version>)
#include <version>
#endif
#ifdef __cpp_lib_span
#include <span>
#endif
#ifdef __cpp_impl_coroutine
#include <coroutine>
#endif

#pragma GCC visibility push(default)

namespace ucxpool
{

/* --- errors --------------------------------------------------------------- */

/* The category of error codes whose values are ucxpool_status_t. */
class status_category final : public std::error_category
{
public:
    const char *name() const noexcept override { return "ucxpool"; }

    std::string message(int value) const override
    {
        return ucxpool_status_string(static_cast<ucxpool_status_t>(value));
    }

    /* Map to std::errc, where there is an equivalent. */
    std::error_condition
    default_error_condition(int value) const noexcept override
    {
        constexpr std::pair<ucxpool_status_t, std::errc> equivalents[] = {
            {UCXPOOL_ERR_INVALID_PARAM, std::errc::invalid_argument},
            {UCXPOOL_ERR_NO_MEMORY, std::errc::not_enough_memory},
            {UCXPOOL_ERR_NO_BLOCKS, std::errc::no_buffer_space},
            {UCXPOOL_ERR_UNSUPPORTED, std::errc::not_supported},
            {UCXPOOL_ERR_IO, std::errc::io_error},
            {UCXPOOL_ERR_CANCELED, std::errc::operation_canceled},
            {UCXPOOL_ERR_TIMED_OUT, std::errc::timed_out},
            {UCXPOOL_ERR_PEER_LOST, std::errc::connection_reset},
            {UCXPOOL_ERR_TRUNCATED, std::errc::message_size},
            {UCXPOOL_ERR_NO_MESSAGE, std::errc::no_message},
            {UCXPOOL_ERR_BUSY, std::errc::device_or_resource_busy},
            {UCXPOOL_ERR_PERMISSION, std::errc::permission_denied},
            {UCXPOOL_ERR_PROTOCOL, std::errc::protocol_error},
            {UCXPOOL_ERR_CHECKSUM, std::errc::bad_message},
            {UCXPOOL_ERR_ADDRESS_IN_USE, std::errc::address_in_use},
            {UCXPOOL_ERR_CLOSED, std::errc::not_connected}};

        for (const auto &[status, equivalent] : equivalents) {
            if (status == value) {
                return equivalent;
            }
        }
        return std::error_condition(value, *this);
    }
};

inline const std::error_category &category() noexcept
{
    static const status_category category;

    return category;
}

inline std::error_code make_error_code(ucxpool_status_t status) noexcept
{
    return std::error_code(static_cast<int>(status), category());
}

/* An error that the library has reported. what() returns the detail and the
 * status. */
class error : public std::system_error
{
public:
    explicit error(ucxpool_status_t status,
                   const char      *detail = ucxpool_error_detail())
        : std::system_error(make_error_code(status), detail), detail_(detail)
    {
    }

    ucxpool_status_t status() const noexcept
    {
        return static_cast<ucxpool_status_t>(code().value());
    }

    /* One sentence that describes the error: see ucxpool_error_detail(). */
    const char *detail() const noexcept { return detail_.what(); }

private:
    std::runtime_error detail_; /* a string whose copies do not throw */
};

/*
 * Throw the calling thread's last error if the status is an error. Returns true
 * for UCXPOOL_OK, and false for UCXPOOL_INPROGRESS.
 */
inline bool check(ucxpool_status_t status)
{
    if (status < 0) {
        throw error(status);
    }
    return status == UCXPOOL_OK;
}

/* --- times ---------------------------------------------------------------- */

inline constexpr std::chrono::nanoseconds forever =
    std::chrono::nanoseconds::max();

/* Converts a duration to the timeout in nanoseconds that the C functions
 * expect. A negative time counts as 0. */
inline std::uint64_t timeout_ns(std::chrono::nanoseconds time) noexcept
{
    if (time == forever) {
        return UCXPOOL_FOREVER;
    }
    return time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
}

/* Maximum time for a canceled request to complete; see class request. */
inline constexpr std::chrono::seconds end_limit{10};

/* --- handles -------------------------------------------------------------- */

namespace detail
{

/*
 * The number of forks that led to this process since the first pool was
 * created. Reading it is cheaper than getpid(), which is a system call.
 */
inline std::atomic<unsigned> num_forks{0};

inline unsigned count_forks() noexcept
{
    static const int registered = ::pthread_atfork(nullptr, nullptr, [] {
        num_forks.fetch_add(1, std::memory_order_relaxed);
    });

    return registered == 0 ? num_forks.load(std::memory_order_relaxed) : 0;
}

/* Records whether a pool still exists. All handles of the pool's objects share
 * this record. */
struct life {
    ucxpool_t        *pool = nullptr;
    std::atomic<bool> is_ended{false};
    unsigned          forks = count_forks(); /* when the pool was created */

    bool is_in_child() const noexcept
    {
        return forks != num_forks.load(std::memory_order_relaxed);
    }

    ucxpool_t *get() const noexcept
    {
        return is_ended.load(std::memory_order_acquire) ? nullptr : pool;
    }
};

using life_ptr = std::shared_ptr<const life>;

inline void end_message(ucxpool_message_t *message) noexcept
{
    ucxpool_message_refuse(message, "the receiver dropped the message");
}

inline void end_comm(const life &life, void *address) noexcept
{
    ucxpool_comm_free(life.pool, address);
}

/*
 * Make progress until the request has ended. Does not call a function that
 * sleeps in the library, because only the thread of the event loop may do so
 * (ucxpool_event_fd()).
 */
inline void await_end(const life &life, ucxpool_request_t *request) noexcept
{
    const auto limit = std::chrono::steady_clock::now() + end_limit;

    while (ucxpool_request_test(request) == UCXPOOL_INPROGRESS) {
        if (ucxpool_progress(life.pool) > 0) {
            continue;
        }
        if (std::chrono::steady_clock::now() > limit) {
            std::fputs("ucxpool: a canceled request still uses its memory, "
                       "which is about to become invalid\n",
                       stderr);
            std::terminate();
        }
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
}

inline void end_request(const life &life, ucxpool_request_t *request) noexcept
{
    if (ucxpool_request_test(request) == UCXPOOL_INPROGRESS) {
        ucxpool_request_cancel(request);
        await_end(life, request);
    }
    ucxpool_request_release(request);
}

/* Returns the attributes of an object. */
template <typename T, typename Attr>
Attr query(void (*call)(const T *, Attr *, std::size_t), const T *object)
{
    Attr attr;

    call(object, &attr, sizeof(attr));
    return attr;
}

} /* namespace detail */

/* A handle that owns an object, such as a channel of a pool. End(object) or
 * End(life, object) releases the object, and Query is the C function that
 * returns its attributes. */
template <typename T, auto End, auto Query = nullptr> class handle
{
public:
    using pointer = T *;

    handle() noexcept = default;

    /* Adopt an object of a pool. `owner` is the pool, or one of its handles. */
    template <typename Owner>
    handle(const Owner &owner, T *raw) noexcept : life_(owner.life()), raw_(raw)
    {
    }

    handle(handle &&other) noexcept
        : life_(std::move(other.life_)),
          raw_(std::exchange(other.raw_, nullptr))
    {
    }

    handle &operator=(handle other) noexcept
    {
        std::swap(life_, other.life_);
        std::swap(raw_, other.raw_);
        return *this;
    }

    ~handle() { reset(); }

    /* Returns the object, or nullptr. */
    T *get() const noexcept { return pool() == nullptr ? nullptr : raw_; }

    explicit operator bool() const noexcept { return get() != nullptr; }

    /* Release the object as the destructor does. */
    void reset() noexcept
    {
        T *raw = get();

        raw_ = nullptr;
        /* A forked child must not use the pool. */
        if (raw != nullptr && !life_->is_in_child()) {
            if constexpr (std::is_invocable_v<decltype(End), T *>) {
                End(raw);
            } else {
                End(*life_, raw);
            }
        }
        life_.reset();
    }

    /* Returns the object, which then belongs to the caller, or nullptr. */
    T *release() noexcept
    {
        T *raw = get();

        raw_ = nullptr;
        life_.reset();
        return raw;
    }

    auto query() const noexcept { return detail::query(Query, get()); }

    /* Returns the pool, or nullptr. */
    ucxpool_t *pool() const noexcept
    {
        return life_ == nullptr ? nullptr : life_->get();
    }

    const detail::life_ptr &life() const noexcept { return life_; }

private:
    detail::life_ptr life_;
    T               *raw_ = nullptr;
};

namespace detail
{

/* Call a C function that creates an object. Returns a handle of the object, or
 * throws if the function fails. */
template <typename Handle, typename Owner, typename Call, typename... Args>
Handle make(const Owner &owner, Call call, Args... args)
{
    typename Handle::pointer raw = nullptr;

    check(call(args..., &raw));
    return Handle(owner, raw);
}

} /* namespace detail */

/* --- data ----------------------------------------------------------------- */

/*
 * Containers that do not own their elements. Only such containers can be passed
 * as temporary objects. Specialize this template for your own span type.
 */
template <typename T> struct is_view : std::false_type {
};
template <typename C, typename T>
struct is_view<std::basic_string_view<C, T>> : std::true_type {
};
#ifdef __cpp_lib_span
template <typename T, std::size_t N>
struct is_view<std::span<T, N>> : std::true_type {
};
#endif

template <typename Void> class basic_data;

using source = basic_data<const void>;
using target = basic_data<void>;

namespace detail
{

/* The type of the elements of a contiguous container. */
template <typename C>
using element = std::remove_pointer_t<decltype(std::size(std::declval<C &>()),
                                               std::data(std::declval<C &>()))>;

template <typename C>
inline constexpr bool outlives_call =
    std::is_lvalue_reference_v<C> ||
    is_view<std::remove_cv_t<std::remove_reference_t<C>>>::value;

template <typename T, typename... Types>
inline constexpr bool is_any_of = (std::is_same_v<T, Types> || ...);

template <typename T>
inline constexpr bool is_segment = is_any_of<T, ucxpool_segment_t, ::iovec>;

/*
 * Element types whose objects can be sent as raw bytes. Pointers, views and the
 * structs that describe memory are excluded, because their bytes are addresses,
 * not data.
 */
template <typename T>
inline constexpr bool is_plain =
    std::is_trivially_copyable_v<T> &&
    !std::is_pointer_v<std::remove_all_extents_t<T>> && !is_view<T>::value &&
    !is_any_of<T, ucxpool_const_segment_t, ucxpool_segment_t, ::iovec,
               ucxpool_range_t, ucxpool_data_t, source, target>;

} /* namespace detail */

/*
 * Data to send or write (source), or memory to receive or read into (target).
 * The memory must stay valid until the request has ended. The memory of a
 * source must also stay unchanged until then. The basic_data object itself need
 * not outlive the call.
 */
template <typename Void> class basic_data
{
public:
    basic_data(Void *address, std::size_t length) noexcept
        : data_(bytes(address, length))
    {
    }

    basic_data(const ucxpool_data_t &data) noexcept : data_(data) {}

    /*
     * A container with data() and size(): a vector, an array, a string, a span.
     * A container of ucxpool_const_segment_t (source only), ucxpool_segment_t
     * or iovec is a list of segments. A container of ucxpool_range_t (source
     * only) is a list of ranges. Elements of any other type are sent or
     * received as raw bytes.
     */
    template <typename C, typename T = detail::element<C>>
    basic_data(C &&container) noexcept
        : data_(describe(std::data(container), std::size(container)))
    {
        static_assert(detail::outlives_call<C>,
                      "the container is destroyed before the request ends");
    }

    /* Equal-length pieces. */
    static basic_data pieces(Void *const *addresses, std::size_t count,
                             std::size_t length) noexcept
    {
        if constexpr (is_source) {
            return ucxpool_source_pieces(addresses, count, length);
        } else {
            return ucxpool_data_pieces(addresses, count, length);
        }
    }

    const ucxpool_data_t &get() const noexcept { return data_; }

private:
    static constexpr bool is_source = std::is_const_v<Void>;

    static ucxpool_data_t bytes(Void *address, std::size_t length) noexcept
    {
        if constexpr (is_source) {
            return ucxpool_source_buffer(address, length);
        } else {
            return ucxpool_data_buffer(address, length);
        }
    }

    template <typename T>
    static ucxpool_data_t describe(T *items, std::size_t count) noexcept
    {
        using plain = std::remove_const_t<T>;

        if constexpr (detail::is_segment<plain> && !is_source) {
            return ucxpool_data_segments(
                reinterpret_cast<const ucxpool_segment_t *>(items), count);
        } else if constexpr (is_source &&
                             (detail::is_segment<plain> ||
                              std::is_same_v<plain, ucxpool_const_segment_t>)) {
            return ucxpool_source_segments(
                reinterpret_cast<const ucxpool_const_segment_t *>(items),
                count);
        } else if constexpr (is_source &&
                             std::is_same_v<plain, ucxpool_range_t>) {
            return ucxpool_source_ranges(items, count);
        } else {
            static_assert(detail::is_plain<plain> &&
                              (is_source || !std::is_const_v<T>),
                          "the elements are not plain bytes");
            return bytes(items, count * sizeof(T));
        }
    }

    ucxpool_data_t data_;
};

/* --- requests ------------------------------------------------------------- */

/* The optional parameters of a send, receive, read or write: see
 * ucxpool_request_params_t. */
class request_params
{
public:
    request_params &timeout(std::chrono::nanoseconds time) noexcept
    {
        set(UCXPOOL_REQUEST_PARAM_FIELD_TIMEOUT).timeout_ns = timeout_ns(time);
        return *this;
    }

    /* The bytes must stay valid until the request has been posted. */
    request_params &metadata(std::string_view bytes) noexcept
    {
        set(UCXPOOL_REQUEST_PARAM_FIELD_METADATA).metadata = bytes.data();
        params_.metadata_length                            = bytes.size();
        return *this;
    }

    request_params &stream(void *stream) noexcept
    {
        set(UCXPOOL_REQUEST_PARAM_FIELD_STREAM).stream = stream;
        return *this;
    }

    request_params &segments(ucxpool_segments_kind_t kind) noexcept
    {
        set(UCXPOOL_REQUEST_PARAM_FIELD_SEGMENTS).segments_kind = kind;
        return *this;
    }

    request_params &completion(void *ptr) noexcept
    {
        set(UCXPOOL_REQUEST_PARAM_FIELD_COMPLETION).completion_ptr = ptr;
        return *this;
    }

    request_params &notify(std::uint64_t tag) noexcept
    {
        set(UCXPOOL_REQUEST_PARAM_FIELD_NOTIFY).notify_tag = tag;
        return *this;
    }

    /* The callback must not throw. */
    request_params &callback(ucxpool_request_cb_t function, void *arg) noexcept
    {
        set(UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK).callback = function;
        params_.callback_arg                               = arg;
        return *this;
    }

    const ucxpool_request_params_t *get() const noexcept { return &params_; }

private:
    ucxpool_request_params_t &set(ucxpool_request_params_field_t field) noexcept
    {
        params_.field_mask |= static_cast<std::uint64_t>(field);
        return params_;
    }

    ucxpool_request_params_t params_{};
};

/*
 * A send, receive, read or write. The caller's memory must stay valid until the
 * request has ended.
 *
 * If the request has not ended, the destructor cancels it and progresses the
 * pool until it has ended. Callbacks and coroutines of other requests may
 * therefore run in the destructor. In most cases the request ends at once. Over
 * `ucx`, if UCX still uses the caller's memory after 250 ms, the channel fails
 * and the request ends; see ucxpool_request_cancel(). A request that depends on
 * a stalled GPU stream may not have ended after 10 s. The destructor then calls
 * std::terminate(), like the destructor of std::thread, because the memory
 * would become invalid while it is in use. To let the request continue instead,
 * call detach().
 */
class request : public handle<ucxpool_request_t, detail::end_request,
                              ucxpool_request_query>
{
public:
    using handle::handle;

    /* Returns UCXPOOL_INPROGRESS or the result. Does not make progress. */
    ucxpool_status_t test() const noexcept
    {
        return ucxpool_request_test(get());
    }

    /* Make progress until the request has ended. Returns false if the timeout
     * has expired, and throws if the request has failed. */
    bool wait(std::chrono::nanoseconds timeout = forever) const
    {
        return check(wait_status(timeout));
    }

    /* Like wait(), but returns the result instead of throwing. */
    ucxpool_status_t
    wait_status(std::chrono::nanoseconds timeout = forever) const noexcept
    {
        return ucxpool_request_wait(get(), timeout_ns(timeout));
    }

    /* The length of the message, in bytes. */
    std::size_t length() const noexcept { return query().length; }

    /* The sender's metadata, which is valid until the request is released. */
    std::string_view metadata() const noexcept
    {
        ucxpool_request_attr_t attr = query();

        return {static_cast<const char *>(attr.metadata), attr.metadata_length};
    }

    void cancel() const noexcept { ucxpool_request_cancel(get()); }

    /* Let the request continue, and release it when it ends. The memory must
     * stay valid until then. */
    void detach() noexcept { ucxpool_request_release(release()); }
};

/* --- messages ------------------------------------------------------------- */

/* A message that has arrived and has not been received. */
class message : public handle<ucxpool_message_t, detail::end_message,
                              ucxpool_message_query>
{
public:
    using handle::handle;

    /*
     * Receive the message. The handle is then empty. After an error, the handle
     * still owns the message.
     */
    [[nodiscard]] request recv(const target         &where,
                               const request_params &params = {})
    {
        request made = detail::make<request>(*this, ucxpool_message_recv, get(),
                                             &where.get(), params.get());

        (void)release();
        return made;
    }

    /* Refuse the message. The handle is then empty. */
    void refuse(const char *reason) noexcept
    {
        ucxpool_message_refuse(release(), reason);
    }
};

/* --- windows -------------------------------------------------------------- */

using window_blob = std::array<unsigned char, UCXPOOL_WINDOW_BLOB_SIZE>;

/* Memory that peers read and write. */
class window : public handle<ucxpool_window_t, ucxpool_window_destroy,
                             ucxpool_window_query>
{
public:
    using handle::handle;

    window_blob blob(unsigned access) const
    {
        window_blob blob;

        check(ucxpool_window_export(get(), access, blob.data()));
        return blob;
    }

    /* Returns true if no peer can access the memory. */
    bool revoke(std::chrono::nanoseconds timeout) const
    {
        return check(ucxpool_window_revoke(get(), timeout_ns(timeout)));
    }
};

/* A window of a peer. */
class remote_window
    : public handle<ucxpool_remote_window_t, ucxpool_remote_window_release,
                    ucxpool_remote_window_query>
{
public:
    using handle::handle;

    [[nodiscard]] request read(const ucxpool_places_t &places,
                               const target           &where,
                               const request_params   &params = {}) const
    {
        return detail::make<request>(*this, ucxpool_remote_window_read, get(),
                                     &places, &where.get(), params.get());
    }

    [[nodiscard]] request write(const ucxpool_places_t &places,
                                const source           &what,
                                const request_params   &params = {}) const
    {
        return detail::make<request>(*this, ucxpool_remote_window_write, get(),
                                     &places, &what.get(), params.get());
    }

    [[nodiscard]] request read(const ucxpool_place_t &place,
                               const target          &where,
                               const request_params  &params = {}) const
    {
        return read(ucxpool_places(&place, 1), where, params);
    }

    [[nodiscard]] request write(const ucxpool_place_t &place,
                                const source          &what,
                                const request_params  &params = {}) const
    {
        return write(ucxpool_places(&place, 1), what, params);
    }
};

/* --- channels and listeners ----------------------------------------------- */

namespace detail
{

template <typename Owner>
message probe(const Owner &owner, ucxpool_t *pool, ucxpool_channel_t *channel,
              std::uint64_t tag, std::uint64_t mask)
{
    ucxpool_message_t *raw    = nullptr;
    ucxpool_status_t   status = ucxpool_probe(pool, channel, tag, mask, &raw);

    if (status == UCXPOOL_ERR_NO_MESSAGE) {
        return {};
    }
    check(status);
    return message(owner, raw);
}

} /* namespace detail */

/* The connection to one peer. */
class channel : public handle<ucxpool_channel_t, ucxpool_channel_close,
                              ucxpool_channel_query>
{
public:
    using handle::handle;

    [[nodiscard]] request send(const source &what, std::uint64_t tag,
                               const request_params &params = {}) const
    {
        return detail::make<request>(*this, ucxpool_send, get(), &what.get(),
                                     tag, params.get());
    }

    /* Receive from this peer. */
    [[nodiscard]] request recv(const target &where, std::uint64_t tag,
                               std::uint64_t         mask   = ~std::uint64_t(0),
                               const request_params &params = {}) const
    {
        return detail::make<request>(*this, ucxpool_recv, pool(), get(),
                                     &where.get(), tag, mask, params.get());
    }

    /* Post a request that ends when all earlier sends have ended. */
    [[nodiscard]] request flush(const request_params &params = {}) const
    {
        return detail::make<request>(*this, ucxpool_channel_flush, get(),
                                     params.get());
    }

    /* Take the oldest matching message. Returns an empty handle if no message
     * matches. */
    message probe(std::uint64_t tag = 0, std::uint64_t mask = 0) const
    {
        return detail::probe(*this, pool(), get(), tag, mask);
    }

    remote_window import(const window_blob &blob) const
    {
        return detail::make<remote_window>(*this, ucxpool_remote_window_import,
                                           get(), blob.data(), blob.size());
    }

    /* Make progress until the channel is open. Returns false if the timeout has
     * expired, and throws if the channel has ended. */
    bool wait(std::chrono::nanoseconds timeout = forever) const
    {
        return check(ucxpool_channel_wait(get(), timeout_ns(timeout)));
    }

    /* Close the channel at once. The handle is then empty. */
    void abort() noexcept { ucxpool_channel_abort(release()); }
};

/* Accepts peers. */
class listener : public handle<ucxpool_listener_t, ucxpool_listener_destroy>
{
public:
    using handle::handle;

    std::uint16_t port() const noexcept { return ucxpool_listener_port(get()); }

    /* Accept the next peer. Returns an empty handle if no peer is queued. */
    channel accept(const ucxpool_channel_params_t *params = nullptr) const
    {
        return detail::make<channel>(*this, ucxpool_listener_accept, get(),
                                     params);
    }
};

/* --- memory --------------------------------------------------------------- */

/* A buffer in the pool's memory, which is sent and received in place: see
 * ucxpool_comm_alloc(). */
class comm_buffer : public handle<void, detail::end_comm>
{
public:
    comm_buffer() noexcept = default;

    template <typename Owner>
    comm_buffer(const Owner &owner, void *address, std::size_t length) noexcept
        : handle(owner, address), length_(length)
    {
    }

    unsigned char *data() const noexcept
    {
        return static_cast<unsigned char *>(get());
    }

    std::size_t size() const noexcept { return get() == nullptr ? 0 : length_; }

private:
    std::size_t length_ = 0;
};

/* --- pools ---------------------------------------------------------------- */

/* Settings. They are initialized from the environment. */
class config
{
public:
    config()
    {
        ucxpool_config_t *raw = nullptr;

        check(ucxpool_config_read(&raw));
        raw_.reset(raw);
    }

    config &set(const char *key, const char *value)
    {
        check(ucxpool_config_modify(get(), key, value));
        return *this;
    }

    config &set_secret(std::string_view secret)
    {
        check(ucxpool_config_set_secret(get(), secret.data(), secret.size()));
        return *this;
    }

    ucxpool_config_t *get() const noexcept { return raw_.get(); }

private:
    std::unique_ptr<ucxpool_config_t, void (*)(ucxpool_config_t *)> raw_{
        nullptr, ucxpool_config_release};
};

/* A pool. Must not be destroyed in a callback, or in a coroutine that the
 * pool's progress has resumed. */
class pool
{
public:
    pool() : pool(ucxpool_params_t{}) {}

    explicit pool(const config &config) : pool(with_config(config)) {}

    explicit pool(const ucxpool_params_t &params)
        : life_(std::make_shared<detail::life>())
    {
        check(ucxpool_create(&params, &life_->pool));
    }

    pool(pool &&other) noexcept = default;

    pool &operator=(pool other) noexcept
    {
        life_.swap(other.life_);
        return *this;
    }

    ~pool() { reset(); }

    /* Destroy the pool. Its handles then return nullptr. */
    void reset() noexcept
    {
        if (life_ != nullptr) {
            ucxpool_destroy(life_->pool);
            life_->is_ended.store(true, std::memory_order_release);
            life_.reset();
        }
    }

    ucxpool_t *get() const noexcept
    {
        return life_ == nullptr ? nullptr : life_->pool;
    }

    explicit operator bool() const noexcept { return life_ != nullptr; }

    /* Returns the number of steps; see ucxpool_progress(). */
    unsigned progress() const noexcept { return ucxpool_progress(get()); }

    /*
     * Make progress until a transfer or a channel has advanced. Returns false
     * if the timeout has expired.
     */
    bool wait(std::chrono::nanoseconds timeout = forever) const
    {
        return check(ucxpool_wait(get(), timeout_ns(timeout)));
    }

    int event_fd() const
    {
        int fd = -1;

        check(ucxpool_event_fd(get(), &fd));
        return fd;
    }

    /* Returns true if the caller may sleep, and false if it must call
     * progress(). */
    bool arm() const
    {
        ucxpool_status_t status = ucxpool_arm(get());

        return status != UCXPOOL_ERR_BUSY && check(status);
    }

    ucxpool_attr_t query() const noexcept
    {
        return detail::query(ucxpool_query, get());
    }

    /* Returns the value of a statistic. */
    std::uint64_t stat(const char *name) const
    {
        std::uint64_t value = 0;

        check(ucxpool_stats_get(get(), name, &value));
        return value;
    }

    /* Returns the text of ucxpool_stats_string(). */
    std::string stats(ucxpool_stats_format_t format) const
    {
        std::unique_ptr<char, void (*)(char *)> text{
            ucxpool_stats_string(get(), format), ucxpool_string_free};

        if (!text) {
            check(get() == nullptr ? UCXPOOL_ERR_INVALID_PARAM
                                   : UCXPOOL_ERR_NO_MEMORY);
        }
        return text.get();
    }

    channel connect(const std::string              &where,
                    const ucxpool_channel_params_t *params = nullptr) const
    {
        return detail::make<channel>(*this, ucxpool_channel_connect, get(),
                                     where.c_str(), params);
    }

    /* Create a channel over an address or an endpoint. */
    channel create_channel(const ucxpool_channel_params_t &params) const
    {
        return detail::make<channel>(*this, ucxpool_channel_create, get(),
                                     &params);
    }

    /* The pool's address: see ucxpool_address_get(). */
    std::string address() const
    {
        void       *raw    = nullptr;
        std::size_t length = 0;

        check(ucxpool_address_get(get(), &raw, &length));

        std::unique_ptr<void, void (*)(void *)> owner(raw,
                                                      ucxpool_address_release);

        return std::string(static_cast<const char *>(raw), length);
    }

    listener listen(const std::string &where) const
    {
        return detail::make<listener>(*this, ucxpool_listener_create, get(),
                                      where.c_str());
    }

    /* Receive from any peer. */
    [[nodiscard]] request recv(const target &where, std::uint64_t tag,
                               std::uint64_t         mask   = ~std::uint64_t(0),
                               const request_params &params = {}) const
    {
        return detail::make<request>(*this, ucxpool_recv, get(), nullptr,
                                     &where.get(), tag, mask, params.get());
    }

    /* Take the oldest matching message of any peer. Returns an empty handle if
     * no message matches. */
    message probe(std::uint64_t tag = 0, std::uint64_t mask = 0) const
    {
        return detail::probe(*this, get(), nullptr, tag, mask);
    }

    window create_window(void *address, std::size_t length,
                         const ucxpool_window_params_t *params = nullptr) const
    {
        return detail::make<window>(*this, ucxpool_window_create, get(),
                                    address, length, params);
    }

    comm_buffer alloc(std::size_t length) const
    {
        void *address = nullptr;

        check(ucxpool_comm_alloc(get(), length, &address));
        return comm_buffer(*this, address, length);
    }

    const std::shared_ptr<detail::life> &life() const noexcept { return life_; }

private:
    static ucxpool_params_t with_config(const config &config) noexcept
    {
        ucxpool_params_t params{};

        params.field_mask = UCXPOOL_PARAM_FIELD_CONFIG;
        params.config     = config.get();
        return params;
    }

    std::shared_ptr<detail::life> life_;
};

/* --- batches -------------------------------------------------------------- */

/*
 * Operations on any channels and remote windows of one pool, which one call
 * posts: see batch.h.
 *
 *     ucxpool::batch                batch;
 *     std::vector<ucxpool::request> requests;
 *
 *     batch.recv(channel, answer, 2).send(channel, question, 1);
 *     batch.post(pool, requests);
 *
 * The handles and the metadata must exist until post(). The data, and arrays of
 * more than one place (a range in a window), must exist until the request of
 * their operation has ended.
 */
class batch
{
public:
    batch &send(const channel &to, const source &what, std::uint64_t tag,
                const request_params &params = {})
    {
        entry &added = add(UCXPOOL_OP_SEND, what.get(), params);

        added.op.channel = to.get();
        added.op.tag     = tag;
        return *this;
    }

    /* Receive from one peer. */
    batch &recv(const channel &from, const target &where, std::uint64_t tag,
                std::uint64_t         mask   = ~std::uint64_t(0),
                const request_params &params = {})
    {
        /* Without a channel, the C function receives from any peer. */
        if (!from) {
            throw error(UCXPOOL_ERR_INVALID_PARAM,
                        "the channel's handle is empty");
        }
        return recv(from.get(), where, tag, mask, params);
    }

    /* Receive from any peer. */
    batch &recv(const target &where, std::uint64_t tag,
                std::uint64_t         mask   = ~std::uint64_t(0),
                const request_params &params = {})
    {
        return recv(nullptr, where, tag, mask, params);
    }

    batch &read(const remote_window &remote, const ucxpool_places_t &places,
                const target &where, const request_params &params = {})
    {
        return add(UCXPOOL_OP_READ, remote, places, where.get(), params);
    }

    batch &write(const remote_window &remote, const ucxpool_places_t &places,
                 const source &what, const request_params &params = {})
    {
        return add(UCXPOOL_OP_WRITE, remote, places, what.get(), params);
    }

    batch &read(const remote_window &remote, const ucxpool_place_t &place,
                const target &where, const request_params &params = {})
    {
        return read(remote, ucxpool_places(&place, 1), where, params);
    }

    batch &write(const remote_window &remote, const ucxpool_place_t &place,
                 const source &what, const request_params &params = {})
    {
        return write(remote, ucxpool_places(&place, 1), what, params);
    }

    /* The number of operations that have not been posted. */
    std::size_t size() const noexcept { return entries_.size(); }

    /*
     * Post the operations, and append their requests in the same order. The
     * batch is then empty and can be used again.
     *
     * If an operation is refused, throws its error. The operations before it
     * are posted, and their requests are appended. The refused operation is
     * removed, so calling post() again continues with the operation after it.
     */
    void post(const pool &pool, std::vector<request> &requests)
    {
        std::vector<ucxpool_request_t *> raw(size());

        if (requests.capacity() - requests.size() < size()) {
            requests.reserve(
                std::max(2 * requests.capacity(), requests.size() + size()));
        }
        post(pool, raw.data(), [&](std::size_t num_posted) {
            for (std::size_t i = 0; i < num_posted; i++) {
                requests.emplace_back(pool, raw[i]);
            }
        });
    }

    /* Like post(), but the requests continue without handles: see
     * request::detach(). */
    void post_detached(const pool &pool)
    {
        post(pool, nullptr, [](std::size_t) {});
    }

private:
    struct entry {
        ucxpool_op_t     op;
        request_params   params;
        ucxpool_places_t places;
        ucxpool_place_t  place; /* copy of the only element of a list */
    };

    entry &add(ucxpool_op_kind_t kind, const ucxpool_data_t &data,
               const request_params &params)
    {
        entry &added = entries_.emplace_back();

        added.op.kind = kind;
        added.op.data = data;
        added.params  = params;
        return added;
    }

    batch &recv(ucxpool_channel_t *from, const target &where, std::uint64_t tag,
                std::uint64_t mask, const request_params &params)
    {
        entry &added = add(UCXPOOL_OP_RECV, where.get(), params);

        added.op.channel = from;
        added.op.tag     = tag;
        added.op.mask    = mask;
        return *this;
    }

    batch &add(ucxpool_op_kind_t kind, const remote_window &remote,
               const ucxpool_places_t &places, const ucxpool_data_t &data,
               const request_params &params)
    {
        entry &added = add(kind, data, params);

        added.op.remote = remote.get();
        added.places    = places;
        if (places.count == 1 && places.places != nullptr) {
            added.place = places.places[0];
        } else if (places.count == 1 && places.offsets != nullptr) {
            added.place.offset = places.offsets[0];
        }
        return *this;
    }

    /* Returns the operation for the C function. */
    static ucxpool_op_t complete(entry &one, ucxpool_request_t **request_p)
    {
        ucxpool_op_t op = one.op;

        if (one.params.get()->field_mask != 0) {
            op.params = one.params.get();
        }
        if (one.places.count == 1 && one.places.places != nullptr) {
            one.places.places = &one.place;
        } else if (one.places.count == 1 && one.places.offsets != nullptr) {
            one.places.offsets = &one.place.offset;
        }
        op.places    = &one.places;
        op.request_p = request_p;
        return op;
    }

    /* raw is an array for the requests, or NULL. Calls posted() with the number
     * of posted operations. */
    template <typename Posted>
    void post(const pool &pool, ucxpool_request_t **raw, Posted posted)
    {
        std::vector<ucxpool_op_t> ops;
        std::size_t               num = 0;

        ops.reserve(size());
        for (entry &one : entries_) {
            ops.push_back(
                complete(one, raw == nullptr ? nullptr : raw + ops.size()));
        }

        ucxpool_status_t status = ucxpool_post(
            pool.get(), ops.data(), sizeof(ucxpool_op_t), ops.size(), &num);

        posted(num);
        if (status == UCXPOOL_OK) {
            entries_.clear();
        } else if (pool) {
            entries_.erase(entries_.begin(),
                           entries_.begin() +
                               static_cast<std::ptrdiff_t>(num + 1));
        }
        check(status);
    }

    std::vector<entry> entries_;
};

/* --- coroutines -----------------------------------------------------------
 * co_await async_send(channel, bytes, tag) suspends the coroutine until the
 * request has ended, and returns the ended request, or throws ucxpool::error.
 * The request is posted by co_await.
 *
 * The thread that progresses the pool resumes the coroutine. It does so in
 * ucxpool_progress() and in functions that wait or that destroy an object. No
 * lock is held. The library has no thread of its own and no scheduler.
 * The rules for callbacks apply to a resumed coroutine until it suspends again:
 * it may call any function except ucxpool_destroy(), and should not block,
 * because it delays this thread. If the pool is destroyed, its coroutines are
 * resumed with UCXPOOL_ERR_CANCELED. If another thread completes the request
 * while co_await is posting it, the coroutine is not suspended and continues in
 * the posting thread.
 *
 * The thread that progresses the pool may destroy a suspended coroutine. The
 * coroutine's request is then canceled as described for class request.
 */
#ifdef __cpp_impl_coroutine

namespace detail
{

template <typename Owner, typename Post> class [[nodiscard]] operation
{
public:
    operation(const Owner &owner, Post post, const request_params &params)
        : owner_(owner), post_(std::move(post)), params_(params)
    {
    }

    operation(const operation &)            = delete;
    operation &operator=(const operation &) = delete;

    ~operation()
    {
        /* If the coroutine is destroyed while it is suspended, the end of the
         * request must not resume it. */
        state_.store(abandoned);
        request_.reset();
    }

    bool await_ready() const noexcept { return false; }

    /* Returns false if the coroutine continues at once. */
    bool await_suspend(std::coroutine_handle<> coroutine) noexcept
    {
        ucxpool_request_t *raw = nullptr;

        coroutine_ = coroutine;
        state_.store(posting);
        params_.callback(ended, this);
        posted_ = post_(params_.get(), &raw);
        if (posted_ != UCXPOOL_OK) {
            return false;
        }
        request_ = request(owner_, raw);
        /* From here on, another thread may resume the coroutine. */
        return state_.exchange(suspended) != finished;
    }

    request await_resume()
    {
        check(posted_);
        /* The callback may not have returned yet in another thread. */
        while (request_.test() == UCXPOOL_INPROGRESS) {
            std::this_thread::yield();
        }
        if (result_ != UCXPOOL_OK) {
            throw error(result_, request_.query().detail);
        }
        return std::move(request_);
    }

private:
    enum state { posting, suspended, finished, abandoned };

    static void ended(ucxpool_request_t *, ucxpool_status_t status,
                      void *arg) noexcept
    {
        operation *self     = static_cast<operation *>(arg);
        state      expected = posting;

        self->result_ = status;
        if (!self->state_.compare_exchange_strong(expected, finished) &&
            expected == suspended) {
            self->coroutine_.resume();
        }
    }

    const Owner            &owner_;
    Post                    post_;
    request_params          params_;
    std::coroutine_handle<> coroutine_;
    request                 request_;
    std::atomic<state>      state_{posting};
    ucxpool_status_t        posted_ = UCXPOOL_OK;
    ucxpool_status_t        result_ = UCXPOOL_OK;
};

} /* namespace detail */

/* Send. The channel, the data and the metadata must outlive the co_await. The
 * callback of the params is not used. */
inline auto async_send(const channel &to, const source &what, std::uint64_t tag,
                       const request_params &params = {})
{
    return detail::operation(
        to,
        [&to, what, tag](auto given, auto raw_p) {
            return ucxpool_send(to.get(), &what.get(), tag, given, raw_p);
        },
        params);
}

/* Receive from one peer. */
inline auto async_recv(const channel &from, const target &where,
                       std::uint64_t         tag,
                       std::uint64_t         mask   = ~std::uint64_t(0),
                       const request_params &params = {})
{
    return detail::operation(
        from,
        [&from, where, tag, mask](auto given, auto raw_p) {
            return ucxpool_recv(from.pool(), from.get(), &where.get(), tag,
                                mask, given, raw_p);
        },
        params);
}

/* Receive from any peer. */
inline auto async_recv(const pool &any, const target &where, std::uint64_t tag,
                       std::uint64_t         mask   = ~std::uint64_t(0),
                       const request_params &params = {})
{
    return detail::operation(
        any,
        [&any, where, tag, mask](auto given, auto raw_p) {
            return ucxpool_recv(any.get(), nullptr, &where.get(), tag, mask,
                                given, raw_p);
        },
        params);
}

/* Read a window of a peer. */
inline auto async_read(const remote_window    &remote,
                       const ucxpool_places_t &places, const target &where,
                       const request_params &params = {})
{
    return detail::operation(
        remote,
        [&remote, places, where](auto given, auto raw_p) {
            return ucxpool_remote_window_read(remote.get(), &places,
                                              &where.get(), given, raw_p);
        },
        params);
}

/* Write to a window of a peer. */
inline auto async_write(const remote_window    &remote,
                        const ucxpool_places_t &places, const source &what,
                        const request_params &params = {})
{
    return detail::operation(
        remote,
        [&remote, places, what](auto given, auto raw_p) {
            return ucxpool_remote_window_write(remote.get(), &places,
                                               &what.get(), given, raw_p);
        },
        params);
}

#endif

} /* namespace ucxpool */

#pragma GCC visibility pop

#endif
