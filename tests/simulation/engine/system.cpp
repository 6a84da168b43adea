// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/engine/system.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include <sys/epoll.h>

namespace hvd::sim {
namespace {

struct FutexSleeper {
    const void* word = nullptr;
    std::shared_ptr<bool> is_woken;
};

std::vector<FutexSleeper>& sleepers() {
    static std::vector<FutexSleeper> list;
    return list;
}

}  // namespace

Files::Files(const Delays& delays) : delays_(delays) {
    current_ = this;
    sleepers().clear();
}

// ---- descriptors --------------------------------------------------------------------------------

Time Files::in_at_most(unsigned micros) {
    auto& scheduler = Scheduler::current();
    if (micros == 0 || scheduler.random().one_in(2)) {
        return scheduler.now();
    }
    return scheduler.now() + std::chrono::nanoseconds(scheduler.random().below(micros * 1000ULL));
}

void EventFile::notify() {
    notify_at(Files::in_at_most(Files::current()->delays().wakeup_us));
}

void EventFile::notify_at(Time time) {
    times_.push_back(time);
    Scheduler::current().note_change();
}

void EventFile::drain() {
    const auto now = Clock::now();
    std::erase_if(times_, [&](Time time) { return time <= now; });
    Scheduler::current().note_change();
}

std::uint32_t EventFile::ready() const {
    const auto now = Clock::now();
    return std::ranges::any_of(times_, [&](Time time) { return time <= now; }) ? EPOLLIN : 0U;
}

std::optional<Time> EventFile::next_change() const {
    const auto now = Clock::now();
    std::optional<Time> first;
    for (const auto time : times_) {
        if (time > now && (!first || time < *first)) {
            first = time;
        }
    }
    return first;
}

int Files::add(std::shared_ptr<File> file) {
    files_.push_back(std::move(file));
    return kFirst + static_cast<int>(files_.size()) - 1;
}

File* Files::find(int fd) const {
    const auto index = static_cast<std::size_t>(fd - kFirst);
    return fd >= kFirst && index < files_.size() ? files_[index].get() : nullptr;
}

void Files::close(int fd) {
    if (File* const file = find(fd)) {
        file->close();
        Scheduler::current().note_change();
    }
}

std::pair<int, int> Files::make_sockets() {
    const auto left = std::make_shared<Pipe>();
    const auto right = std::make_shared<Pipe>();
    left->room = right->room = delays_.socket_bytes;
    return {add(std::make_shared<SocketFile>(left, right)),
            add(std::make_shared<SocketFile>(right, left))};
}

void close_descriptor(int fd) noexcept {
    if (Files::current() != nullptr) {
        Files::current()->close(fd);
    }
}

int make_event() {
    return Files::current()->add(std::make_shared<EventFile>());
}

void event_write(int fd) noexcept {
    Scheduler::current().touch();
    Scheduler::current().drain();  // a system call
    Files::current()->get<EventFile>(fd).notify();
}

void event_read(int fd) noexcept {
    Scheduler::current().touch();
    Files::current()->get<EventFile>(fd).drain();
}

int poll_one(pollfd* poll, int /*count*/, int /*timeout*/) {
    Scheduler::current().touch();
    const File* const file = Files::current()->find(poll->fd);
    poll->revents = static_cast<short>((file == nullptr ? 0U : file->ready()) & EPOLLIN);
    return poll->revents == 0 ? 0 : 1;
}

// ---- sockets ------------------------------------------------------------------------------------

bool SocketFile::has_end() const {
    return in_->closed_at && *in_->closed_at <= Clock::now();
}

std::uint32_t SocketFile::ready() const {
    std::uint32_t events = 0;
    const bool has_bytes = !in_->pieces.empty() && in_->pieces.front().at <= Clock::now();
    if (has_bytes || has_end()) {
        events |= EPOLLIN;
    }
    if (has_end()) {
        events |= EPOLLRDHUP;
    }
    if (out_->size < out_->room || out_->is_unread) {
        events |= EPOLLOUT;
    }
    return events;
}

std::uint64_t SocketFile::edges() const {
    const auto now = Clock::now();
    std::uint64_t edges =
        in_->pieces_gone + out_->rooms_made + (has_end() ? 1 : 0) + (out_->is_unread ? 1 : 0) + 1;
    for (const auto& piece : in_->pieces) {
        edges += piece.at <= now ? 1 : 0;
    }
    return edges;
}

std::optional<Time> SocketFile::next_change() const {
    const auto now = Clock::now();
    for (const auto& piece : in_->pieces) {
        if (piece.at > now) {
            return piece.at;
        }
    }
    if (in_->closed_at && *in_->closed_at > now) {
        return in_->closed_at;
    }
    return std::nullopt;
}

void SocketFile::close() {
    if (!out_->closed_at) {
        auto at = Files::in_at_most(Files::current()->delays().wire_us);
        if (!out_->pieces.empty()) {
            at = std::max(at, out_->pieces.back().at);
        }
        out_->closed_at = at;
    }
    in_->is_unread = true;
}

void SocketFile::reset() {
    close();
    out_->is_reset = true;
}

ssize_t SocketFile::send(const msghdr& message) {
    if (out_->is_unread) {
        errno = EPIPE;
        return -1;
    }
    const auto room = out_->room - out_->size;
    if (room == 0) {
        out_->was_full = true;
        errno = EAGAIN;
        return -1;
    }
    auto& random = Scheduler::current().random();
    Pipe::Piece piece;
    for (std::size_t index = 0; index < message.msg_iovlen; ++index) {
        const auto* bytes = static_cast<const std::byte*>(message.msg_iov[index].iov_base);
        piece.bytes.insert(piece.bytes.end(), bytes, bytes + message.msg_iov[index].iov_len);
    }
    auto count = std::min(room, piece.bytes.size());
    if (random.one_in(8)) {
        count = 1 + random.below(count);
    }
    piece.bytes.resize(count);
    piece.at = Files::in_at_most(Files::current()->delays().wire_us);
    if (!out_->pieces.empty()) {
        piece.at = std::max(piece.at, out_->pieces.back().at);
    }
    out_->size += count;
    out_->pieces.push_back(std::move(piece));
    return static_cast<ssize_t>(count);
}

ssize_t SocketFile::receive(const msghdr& message) {
    auto* to = static_cast<std::byte*>(message.msg_iov[0].iov_base);
    const auto most = message.msg_iov[0].iov_len;
    std::size_t count = 0;
    while (count < most && !in_->pieces.empty() && in_->pieces.front().at <= Clock::now()) {
        auto& piece = in_->pieces.front();
        const auto part = std::min(most - count, piece.bytes.size() - piece.taken);
        std::memcpy(to + count, piece.bytes.data() + piece.taken, part);
        count += part;
        piece.taken += part;
        if (piece.taken == piece.bytes.size()) {
            in_->pieces.pop_front();
            ++in_->pieces_gone;
        }
    }
    if (count != 0) {
        in_->size -= count;
        if (std::exchange(in_->was_full, false)) {
            ++in_->rooms_made;
        }
        return static_cast<ssize_t>(count);
    }
    if (in_->pieces.empty() && has_end()) {
        if (in_->is_reset) {
            errno = ECONNRESET;
            return -1;
        }
        return 0;
    }
    errno = EAGAIN;
    return -1;
}

ssize_t sendmsg(int fd, const msghdr* message, int /*flags*/) noexcept {
    auto& scheduler = Scheduler::current();
    scheduler.touch();
    const auto sent = Files::current()->get<SocketFile>(fd).send(*message);
    scheduler.note_change();
    return sent;
}

ssize_t recvmsg(int fd, msghdr* message, int /*flags*/) noexcept {
    auto& scheduler = Scheduler::current();
    scheduler.touch();
    const auto received = Files::current()->get<SocketFile>(fd).receive(*message);
    scheduler.note_change();
    return received;
}

// ---- threads ------------------------------------------------------------------------------------

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, const timespec* until) {
    std::optional<Time> end;
    if (until != nullptr) {
        end = Time(std::chrono::seconds(until->tv_sec) + std::chrono::nanoseconds(until->tv_nsec));
    }
    auto& scheduler = Scheduler::current();
    scheduler.touch();
    if (word.load() != expected) {
        return;
    }
    // A value that changes without a wake-up leaves the thread asleep, as in the kernel.
    const auto is_woken = std::make_shared<bool>(false);
    sleepers().push_back({&word, is_woken});
    (void)scheduler.wait(
        "a futex", [is_woken] { return *is_woken; }, end);
}

void futex_wake(std::atomic<std::uint32_t>& word) noexcept {
    auto& all = sleepers();
    for (const auto& sleeper : all) {
        if (sleeper.word == &word) {
            *sleeper.is_woken = true;
        }
    }
    std::erase_if(all, [](const FutexSleeper& sleeper) {
        return *sleeper.is_woken || sleeper.is_woken.use_count() == 1;
    });
    Scheduler::current().note_change();
}

void Mutex::lock() {
    auto& scheduler = Scheduler::current();
    if (scheduler.running() == nullptr) {
        is_held_ = true;
        return;
    }
    (void)scheduler.wait("a mutex", [this] { return !is_held_; });
    is_held_ = true;
    scheduler.drain();
}

bool Mutex::try_lock() {
    auto& scheduler = Scheduler::current();
    scheduler.touch();
    scheduler.drain();
    return !std::exchange(is_held_, true);
}

void Mutex::unlock() {
    auto& scheduler = Scheduler::current();
    scheduler.drain();
    is_held_ = false;
    scheduler.note_change();
}

ThreadId this_thread() noexcept {
    const auto* const running = Scheduler::current().running();
    return running == nullptr ? 0 : running->id + 1;
}

void yield() {
    Scheduler::current().yield();
}

Thread::Thread(std::function<void(const std::stop_token&)> body) {
    auto& scheduler = Scheduler::current();
    const auto* const parent = scheduler.running();
    thread_ =
        &scheduler.spawn(parent == nullptr ? -1 : parent->rank, "engine",
                         [body = std::move(body), token = stop_.get_token()] { body(token); });
}

bool Thread::joinable() const noexcept {
    return thread_ != nullptr && !is_joined_ && !thread_->is_dead;
}

void Thread::join() {
    auto* const thread = thread_;
    Scheduler::current().wait("a thread's end", [thread] { return thread->fiber->has_ended(); });
    is_joined_ = true;
}

Thread::~Thread() {
    if (joinable() && Scheduler::is_inside_fiber()) {
        request_stop();
        join();
    }
}

}  // namespace hvd::sim
