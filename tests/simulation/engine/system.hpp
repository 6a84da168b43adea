// SPDX-License-Identifier: Apache-2.0
//
// The kernel of a simulated world: descriptors, sockets, futexes and threads, under the names that
// the patched copies of the shipped sources call. Nothing here blocks the one real thread.
#pragma once

#include "tests/simulation/engine/scheduler.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>

namespace hvd::sim {

// ---- descriptors --------------------------------------------------------------------------------

/// The object behind a descriptor.
class File {
public:
    File() = default;
    virtual ~File() = default;
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    /// Events as those of epoll, now.
    [[nodiscard]] virtual std::uint32_t ready() const = 0;
    /// Grows with each event that an edge-triggered watcher gets.
    [[nodiscard]] virtual std::uint64_t edges() const { return 0; }
    /// When one of the two changes by itself.
    [[nodiscard]] virtual std::optional<Time> next_change() const { return std::nullopt; }
    virtual void close() {}
};

/// Readable from `notify` on, or somewhat later, until it is drained.
class EventFile final : public File {
public:
    void notify();
    void notify_at(Time time);
    void drain();
    [[nodiscard]] std::uint32_t ready() const override;
    [[nodiscard]] std::optional<Time> next_change() const override;

private:
    std::vector<Time> times_;
};

/// A stream of bytes one way.
struct Pipe {
    struct Piece {
        Time at;  // when it arrives
        std::vector<std::byte> bytes;
        std::size_t taken = 0;
    };
    std::deque<Piece> pieces;
    std::size_t size = 0;
    std::size_t room = 0;  // all of it
    std::uint64_t rooms_made = 0;
    std::uint64_t pieces_gone = 0;
    std::optional<Time> closed_at;  // the writer's end
    bool is_reset = false;          // its process died
    bool is_unread = false;         // the reader's end is closed
    bool was_full = false;
};

/// One end of a connection.
class SocketFile final : public File {
public:
    SocketFile(std::shared_ptr<Pipe> in, std::shared_ptr<Pipe> out)
        : in_(std::move(in)), out_(std::move(out)) {}
    [[nodiscard]] std::uint32_t ready() const override;
    [[nodiscard]] std::uint64_t edges() const override;
    [[nodiscard]] std::optional<Time> next_change() const override;
    void close() override;
    void reset();

    [[nodiscard]] ssize_t send(const msghdr& message);
    [[nodiscard]] ssize_t receive(const msghdr& message);

private:
    [[nodiscard]] bool has_end() const;

    std::shared_ptr<Pipe> in_;
    std::shared_ptr<Pipe> out_;
};

/// How long it takes until what one thread does reaches another.
struct Delays {
    unsigned wakeup_us = 0;  // at most
    unsigned wire_us = 0;
    std::size_t socket_bytes = 65536;
};

/// All descriptors of a schedule.
class Files {
public:
    explicit Files(const Delays& delays);
    ~Files() { current_ = nullptr; }
    Files(const Files&) = delete;
    Files& operator=(const Files&) = delete;
    [[nodiscard]] static Files* current() noexcept { return current_; }

    [[nodiscard]] int add(std::shared_ptr<File> file);
    [[nodiscard]] File* find(int fd) const;
    template <class Kind>
    [[nodiscard]] Kind& get(int fd) const {
        return dynamic_cast<Kind&>(*find(fd));
    }
    void close(int fd);

    [[nodiscard]] std::pair<int, int> make_sockets();
    [[nodiscard]] const Delays& delays() const noexcept { return delays_; }
    [[nodiscard]] static Time in_at_most(unsigned micros);

private:
    static constexpr int kFirst = 1'000'000;  // the real ones stay below
    static inline Files* current_ = nullptr;  // NOLINT(readability-identifier-naming)

    Delays delays_;
    std::vector<std::shared_ptr<File>> files_;
};

void close_descriptor(int fd) noexcept;
[[nodiscard]] int make_event();
void event_write(int fd) noexcept;
void event_read(int fd) noexcept;
[[nodiscard]] int poll_one(pollfd* poll, int count, int timeout);
[[nodiscard]] ssize_t sendmsg(int fd, const msghdr* message, int flags) noexcept;
[[nodiscard]] ssize_t recvmsg(int fd, msghdr* message, int flags) noexcept;

// ---- threads ------------------------------------------------------------------------------------

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, const timespec* until);
void futex_wake(std::atomic<std::uint32_t>& word) noexcept;

class Mutex {
public:
    void lock();
    bool try_lock();
    void unlock();

private:
    bool is_held_ = false;
};

/// The running thread; 0 on the main stack.
using ThreadId = int;
[[nodiscard]] ThreadId this_thread() noexcept;
void yield();

/// As std::jthread.
class Thread {
public:
    Thread() = default;
    explicit Thread(std::function<void(const std::stop_token&)> body);
    Thread(Thread&&) = delete;
    Thread& operator=(Thread&& other) noexcept {
        stop_ = std::move(other.stop_);
        thread_ = std::exchange(other.thread_, nullptr);
        return *this;
    }
    Thread(const Thread&) = delete;
    Thread& operator=(const Thread&) = delete;
    ~Thread();

    [[nodiscard]] bool joinable() const noexcept;
    void request_stop() { stop_.request_stop(); }
    void join();

private:
    std::stop_source stop_;
    Scheduler::Thread* thread_ = nullptr;
    bool is_joined_ = false;
};

}  // namespace hvd::sim
