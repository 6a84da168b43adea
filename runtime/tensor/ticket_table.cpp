// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/ticket_table.hpp"

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <new>
#include <utility>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace hvd::rt {
namespace {

// The life of a ticket. Each bit is set once, by fetch_or or compare-exchange, so that of two
// parties that race exactly one sees the other's bit and does what is left to do:
//   complete: kDone      calls the callback if kCallback was there; recycles if kReleased was there
//   on_complete: kCallback   calls it at once if kDone was there
//   release: kReleased   recycles if kDone was there
constexpr std::uint32_t kDone = 1;
constexpr std::uint32_t kReleased = 2;
constexpr std::uint32_t kClaimed = 4;  // somebody is writing `callback`
constexpr std::uint32_t kCallback = 8;

constexpr std::uint32_t kWaited = 16;  // somebody sleeps on the word
constexpr std::uint32_t kIdle = 32;    // not submitted

constexpr std::size_t kAlignment = 64;

/// Sleeps while the word is `expected`, up to the deadline. May wake early.
void futex_wait(std::atomic<std::uint32_t>& word,
                std::uint32_t expected,
                Deadline deadline) noexcept {
    timespec until{};
    if (const auto end = deadline.end()) {
        const auto since_epoch = end->time_since_epoch();
        const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
        until.tv_sec = seconds.count();
        until.tv_nsec = std::chrono::nanoseconds(since_epoch - seconds).count();
    }
    // FUTEX_WAIT_BITSET takes an absolute time of the monotonic clock, which steady_clock is.
    (void)syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected,
                  deadline.is_never() ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void futex_wake(std::atomic<std::uint32_t>& word) noexcept {
    (void)syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

}  // namespace

void AlignedFree::operator()(std::byte* memory) const noexcept {
    ::operator delete (memory, std::align_val_t{kAlignment});
}

OwnedBytes allocate_aligned(std::size_t bytes) {
    if (bytes == 0) {
        return nullptr;
    }
    if (bytes > std::numeric_limits<std::ptrdiff_t>::max() - kAlignment) {
        throw std::bad_alloc();  // rounded up to the alignment, it would be a few bytes
    }
    return OwnedBytes(
        static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment})));
}

TicketTable::TicketTable()
    : chunks_(std::make_unique<std::array<std::atomic<Chunk*>, kMaxChunks>>()) {}

TicketTable::~TicketTable() {
    for (std::size_t index = 0; index < chunk_count_; ++index) {
        const std::unique_ptr<Chunk> owner((*chunks_)[index].load(std::memory_order_relaxed));
    }
}

Operation& TicketTable::take_free() {
    if (free_.empty()) {
        if (chunk_count_ == kMaxChunks) {
            throw Exception(
                {Errc::unavailable, "more than " + std::to_string(kMaxChunks * kChunk) +
                                        " operations are not released: hvd_release is missing"});
        }
        auto chunk = std::make_unique<Chunk>();
        free_.reserve((chunk_count_ + 1) * kChunk);
        for (std::size_t place = kChunk; place-- > 0;) {
            (*chunk)[place].index = static_cast<std::uint32_t>(chunk_count_ * kChunk + place);
            free_.push_back(&(*chunk)[place]);
        }
        (*chunks_)[chunk_count_++].store(chunk.release(), std::memory_order_release);
    }
    Operation& operation = *free_.back();
    free_.pop_back();
    operation.name = nullptr;
    operation.group = nullptr;
    return operation;
}

Name& TicketTable::intern(int process_set, std::string&& text) {
    auto found = names_.find({process_set, text});
    if (found == names_.end()) {
        auto name = std::make_unique<Name>();
        name->process_set = process_set;
        name->text = std::move(text);
        const NameKey key{process_set, name->text};
        found = names_.emplace(key, std::move(name)).first;
    }
    ++found->second->users;
    return *found->second;
}

void TicketTable::drop_user(Name& name) noexcept {
    if (--name.users == 0 && !name.is_cached.load(std::memory_order_relaxed)) {
        names_.erase({name.process_set, name.text});
    }
}

void TicketTable::uncache(Name& name) {
    const std::lock_guard lock(mutex_);
    name.is_cached.store(false, std::memory_order_relaxed);
    if (name.users == 0) {
        names_.erase({name.process_set, name.text});
    }
}

/// Operations that are being made; those of a call that throws are given back.
class TicketTable::Unfinished {
public:
    Unfinished(TicketTable& table, std::vector<Operation*>& operations)
        : table_(table), operations_(operations) {}
    Unfinished(const Unfinished&) = delete;
    Unfinished& operator=(const Unfinished&) = delete;
    ~Unfinished() {
        for (Operation* operation : operations_) {
            if (!is_finished_) {
                table_.put_back(*operation);
            }
        }
    }

    void finish() noexcept { is_finished_ = true; }

private:
    TicketTable& table_;
    std::vector<Operation*>& operations_;
    bool is_finished_ = false;
};

namespace {

std::unique_ptr<Staged> stage(const Request& request) {
    if (!request.device) {
        return nullptr;
    }
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): copies name memory for both ways
    auto* const in = const_cast<std::byte*>(request.in);
    return std::make_unique<Staged>(Staged{.place = *request.device, .in = in, .out = request.out});
}

}  // namespace

Result<std::vector<Operation*>> TicketTable::create(std::span<Request> requests) {
    for (const auto& request : requests) {
        if (request.name.empty()) {
            return Error{Errc::invalid_argument, "a tensor without a name"};
        }
    }
    std::vector<Operation*> operations;
    operations.reserve(requests.size());
    const std::lock_guard lock(mutex_);
    Unfinished unfinished(*this, operations);
    for (auto& request : requests) {
        Operation& operation = take_free();
        operations.push_back(&operation);
        operation.name = &intern(request.process_set, std::move(request.name));
        operation.process_set = request.process_set;
        operation.signature = std::move(request.signature);
        operation.in = request.in;
        operation.out = request.out;
        operation.allocates = !request.has_out;
        operation.out_rows = request.out_rows;
        operation.staged = stage(request);
        operation.on_device = nullptr;
        operation.state.store(kIdle, std::memory_order_relaxed);
        operation.leader = nullptr;
        operation.next = nullptr;
    }
    join_groups(requests, operations);
    unfinished.finish();
    return operations;
}

void TicketTable::join_groups(std::span<const Request> requests,
                              std::span<Operation* const> operations) {
    for (std::size_t index = 0; index < requests.size(); ++index) {
        Operation& leader = *operations[index];
        if (leader.leader != nullptr) {
            continue;  // a member of an earlier leader's group
        }
        leader.leader = &leader;
        if (requests[index].group == 0) {
            leader.group = leader.name;
            ++leader.group->users;
            continue;
        }
        std::string joined;
        Operation* last = &leader;
        for (std::size_t other = index + 1; other < requests.size(); ++other) {
            if (requests[other].group == requests[index].group) {
                joined += '\n' + operations[other]->name->text;
                operations[other]->leader = &leader;
                last->next = operations[other];
                last = operations[other];
            }
        }
        leader.group = &intern(leader.process_set, leader.name->text + joined);
        for (Operation* member = leader.next; member != nullptr; member = member->next) {
            member->group = leader.group;
            ++leader.group->users;
        }
    }
}

Operation& TicketTable::create_neutral(const Signature& signature, ProcessSetEntry& set) {
    auto memory = allocate_aligned(byte_count(signature));
    const std::lock_guard lock(mutex_);
    Operation& operation = take_free();
    operation.is_neutral = true;
    operation.name = nullptr;
    operation.group = nullptr;
    operation.leader = &operation;
    operation.next = nullptr;
    operation.set = &set;
    set.users.fetch_add(1, std::memory_order_relaxed);
    operation.process_set = set.set.id;
    operation.signature = signature;
    operation.allocates = false;
    operation.owned = std::move(memory);
    operation.in = operation.owned.get();
    operation.out = operation.owned.get();
    operation.failed = false;
    operation.state.store(kReleased, std::memory_order_relaxed);
    return operation;
}

void TicketTable::move_neutral(Operation& operation) const {
    if (operation.signature.device == coll::Device::Kind::host) {
        return;
    }
    if (devices_ == nullptr) {
        throw Exception({Errc::unsupported,
                         "other ranks have tensors on GPUs, which this build does not take"});
    }
    auto device = std::make_unique<OnDevice>();
    device->owned = devices_->upload({operation.owned.get(), byte_count(operation.signature)});
    operation.in = device->owned.get();
    operation.out = device->owned.get();
    operation.on_device = std::move(device);
}

Status TicketTable::claim(std::span<Operation* const> operations) {
    for (std::size_t index = 0; index < operations.size(); ++index) {
        if (operations[index]->name->is_pending.exchange(true, std::memory_order_acquire)) {
            for (std::size_t undo = 0; undo < index; ++undo) {
                operations[undo]->name->is_pending.store(false, std::memory_order_release);
            }
            return Error{Errc::invalid_argument,
                         "a tensor named '" + operations[index]->name->text +
                             "' is already pending: wait for it, or use another name"};
        }
    }
    for (Operation* operation : operations) {
        operation->failed = false;
        operation->state.store(0, std::memory_order_relaxed);
    }
    return ok();
}

Ticket TicketTable::ticket_of(const Operation& operation) noexcept {
    return (Ticket{operation.generation.load(std::memory_order_relaxed)} << 32) |
           (operation.index + 1);
}

Result<Operation*> TicketTable::find(Ticket ticket) const {
    const auto place = static_cast<std::uint32_t>(ticket);
    const auto generation = static_cast<std::uint32_t>(ticket >> 32);
    if (place != 0 && (place - 1) / kChunk < kMaxChunks) {
        Chunk* chunk = (*chunks_)[(place - 1) / kChunk].load(std::memory_order_acquire);
        if (chunk != nullptr) {
            Operation& operation = (*chunk)[(place - 1) % kChunk];
            if (operation.generation.load(std::memory_order_acquire) == generation) {
                return &operation;
            }
        }
    }
    return Error{Errc::invalid_argument,
                 "ticket " + std::to_string(ticket) + " is unknown, or was released"};
}

bool TicketTable::is_done(const Operation& operation) noexcept {
    return (operation.state.load(std::memory_order_acquire) & (kDone | kIdle)) != 0;
}

void TicketTable::complete(Operation& operation) {
    if (operation.staged != nullptr && !operation.failed && !operation.staged->is_returning &&
        carrier_->carry(operation)) {
        return;
    }
    if (observer_ != nullptr) {
        Operation* const ended = &operation;
        observer_->on(Moment::ended, {&ended, 1}, {});
    }
    if (operation.name != nullptr) {
        operation.name->is_pending.store(false, std::memory_order_release);
    }
    if (operation.set != nullptr) {
        ProcessSetTable::release(*std::exchange(operation.set, nullptr));
    }
    // Copied before `done` is visible: after it, the owner may release and reuse the operation.
    Callback callback;
    Error error;
    auto state = operation.state.load(std::memory_order_acquire);
    const bool failed = operation.failed;
    const bool counts = !operation.is_neutral;
    do {
        if ((state & kCallback) != 0 && !callback) {
            callback = operation.callback;
            error = operation.error;
        }
    } while (!operation.state.compare_exchange_weak(state, state | kDone, std::memory_order_acq_rel,
                                                    std::memory_order_acquire));
    // One writer at a time, the holder of the progress lock: no read-modify-write is needed.
    if (counts) {
        completed_.store(completed_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    if ((state & kWaited) != 0) {
        futex_wake(operation.state);
    }
    if (callback) {
        callback(failed ? &error : nullptr);
    }
    if ((state & kReleased) != 0) {
        recycle(operation);
    }
}

bool TicketTable::wait(const Operation& operation, Deadline deadline) noexcept {
    auto& word = operation.state;
    auto state = word.load(std::memory_order_acquire);
    while ((state & kDone) == 0) {
        if (deadline.has_passed()) {
            return false;
        }
        state = word.fetch_or(kWaited, std::memory_order_acq_rel) | kWaited;
        if ((state & kDone) == 0) {
            futex_wait(word, state, deadline);
            state = word.load(std::memory_order_acquire);
        }
    }
    return true;
}

void TicketTable::wake_any() noexcept {
    const auto completed = completed_.load(std::memory_order_relaxed);
    if (std::exchange(announced_, completed) == completed) {
        return;
    }
    batches_.fetch_add(1, std::memory_order_seq_cst);
    if (any_sleepers_.load(std::memory_order_seq_cst) != 0) {
        futex_wake(batches_);
    }
}

void TicketTable::wait_any(std::uint32_t seen, Deadline deadline) noexcept {
    any_sleepers_.fetch_add(1, std::memory_order_seq_cst);
    futex_wait(batches_, seen, deadline);
    any_sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

Status TicketTable::on_complete(Operation& operation, Callback callback) {
    if ((operation.state.fetch_or(kClaimed, std::memory_order_acq_rel) & kClaimed) != 0) {
        return Error{Errc::invalid_argument, "the ticket has a callback already"};
    }
    operation.callback = std::move(callback);
    if ((operation.state.fetch_or(kCallback, std::memory_order_acq_rel) & kDone) != 0) {
        // A copy: the callback may release the ticket.
        const Callback now = operation.callback;
        const Error error = operation.error;
        now(operation.failed ? &error : nullptr);
    }
    return ok();
}

Status TicketTable::release(Operation& operation) {
    const auto state = operation.state.fetch_or(kReleased, std::memory_order_acq_rel);
    if ((state & kReleased) != 0) {
        return Error{Errc::invalid_argument, "the ticket was released before"};
    }
    if ((state & kDone) != 0) {
        recycle(operation);
    }
    return ok();
}

Status TicketTable::discard(std::span<Operation* const> operations) {
    for (const Operation* operation : operations) {
        if (!is_done(*operation)) {
            return Error{Errc::invalid_argument,
                         "'" + operation->name->text + "' is still pending: wait for it first"};
        }
    }
    for (Operation* operation : operations) {
        recycle(*operation);
    }
    return ok();
}

void TicketTable::recycle(Operation& operation) noexcept {
    operation.owned.reset();
    operation.staged.reset();
    operation.on_device.reset();
    operation.callback = nullptr;
    operation.failed = false;
    operation.event.reset();
    const std::lock_guard lock(mutex_);
    put_back(operation);
}

void TicketTable::put_back(Operation& operation) noexcept {
    // Generation first: from here on the old ticket is unknown. 0 is left out, so that no ticket is
    // 0 and none looks like a bare index.
    auto generation = operation.generation.load(std::memory_order_relaxed) + 1;
    operation.generation.store(generation == 0 ? 1 : generation, std::memory_order_release);
    operation.state.store(0, std::memory_order_relaxed);
    operation.is_neutral = false;
    for (Name* name : {operation.name, operation.group}) {
        if (name != nullptr) {
            drop_user(*name);
        }
    }
    free_.push_back(&operation);
}

}  // namespace hvd::rt
