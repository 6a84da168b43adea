// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/ticket_table.hpp"

#include "runtime/tensor/futex.hpp"

#include <array>
#include <utility>

namespace hvd::rt {
namespace {

// The life of a ticket. Each bit is set once, by fetch_or or compare-exchange, so that of two
// parties that race exactly one sees the other's bit and does what is left to do:
//   complete: kEnded, kDone   between them calls the callback, if kCallback was there before kDone;
//                             recycles if kReleased was there
//   on_complete: kCallback   calls it at once if kDone was there
//   release: kReleased   recycles if kDone was there
constexpr std::uint32_t kDone = 1;
constexpr std::uint32_t kReleased = 2;
constexpr std::uint32_t kClaimed = 4;  // somebody is writing `callback`
constexpr std::uint32_t kCallback = 8;

constexpr std::uint32_t kWaited = 16;  // somebody sleeps on the word
constexpr std::uint32_t kIdle = 32;    // not submitted
constexpr std::uint32_t kEnded = 64;   // its result is there, and its callback may be running

}  // namespace

void TicketTable::uncache(Name& name) {
    const std::lock_guard lock(mutex_);
    names_.uncache(name);
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

/// Whether the operation has ended, and is to be given back. Errors: invalid_argument.
Result<bool> mark_released(Operation& operation) {
    const auto state = operation.state.fetch_or(kReleased, std::memory_order_acq_rel);
    if ((state & kReleased) != 0) {
        return Error{Errc::invalid_argument, "the ticket was released before"};
    }
    return (state & kDone) != 0;
}

bool has_failed(const Operation& operation) noexcept {
    return operation.failed || operation.callback_failed;
}

/// Calls the callback, whose error becomes the operation's unless that has failed before.
void call(Operation& operation) {
    auto called = operation.callback(operation.failed ? &operation.error : nullptr);
    if (!called && !operation.failed) {
        operation.error = std::move(called).error();
        operation.callback_failed = true;
    }
}

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
        Operation& operation = pool_.take();
        operations.push_back(&operation);
        operation.name = &names_.intern(request.process_set, std::move(request.name));
        operation.process_set = request.process_set;
        operation.signature = std::move(request.signature);
        operation.in = request.in;
        operation.out = request.out;
        operation.allocates = !request.has_out;
        operation.out_rows = request.out_rows;
        operation.staged = stage(request);
        operation.on_device = nullptr;
        operation.devices = nullptr;
        operation.agreement = 0;
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
        leader.group = &names_.intern(leader.process_set, leader.name->text + joined);
        for (Operation* member = leader.next; member != nullptr; member = member->next) {
            member->group = leader.group;
            ++leader.group->users;
        }
    }
}

Operation& TicketTable::create_neutral(const Signature& signature, ProcessSetEntry& set) {
    auto memory = allocate_aligned(byte_count(signature));
    const std::lock_guard lock(mutex_);
    Operation& operation = pool_.take();
    operation.is_neutral = true;
    operation.devices = nullptr;
    operation.leader = &operation;
    operation.next = nullptr;
    operation.set = &set;
    ProcessSetTable::keep(set);
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
    if (operation.devices == nullptr) {
        return;
    }
    if (devices_ == nullptr) {
        throw Exception({Errc::unsupported,
                         "other ranks have tensors on GPUs, which this build does not take"});
    }
    auto device = std::make_unique<OnDevice>();
    const int index = operation.devices->at(static_cast<std::size_t>(operation.set->set.place));
    device->owned =
        devices_->upload(index, {operation.owned.get(), byte_count(operation.signature)});
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

bool TicketTable::is_done(const Operation& operation) noexcept {
    return (operation.state.load(std::memory_order_acquire) & (kDone | kIdle)) != 0;
}

bool TicketTable::has_ended(const Operation& operation) noexcept {
    return (operation.state.load(std::memory_order_acquire) & (kEnded | kDone | kIdle)) != 0;
}

Status TicketTable::outcome(const Operation& operation) {
    return has_failed(operation) ? Status(operation.error) : ok();
}

bool TicketTable::has_succeeded(const Operation& operation) noexcept {
    return is_done(operation) && !has_failed(operation);
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
    // After `done`, the owner may release and reuse the operation.
    const bool counts = !operation.is_neutral;
    auto state = operation.state.load(std::memory_order_acquire);
    bool was_called = false;
    do {
        if ((state & kCallback) != 0 && !std::exchange(was_called, true)) {
            state = operation.state.fetch_or(kEnded, std::memory_order_acq_rel) | kEnded;
            call(operation);
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
        // Copies: the callback may release the ticket.
        const Callback now = operation.callback;
        const Error error = operation.error;
        return now(operation.failed ? &error : nullptr);
    }
    return ok();
}

Status TicketTable::release(Operation& operation) {
    HVD_TRY(const bool has_ended, mark_released(operation));
    if (has_ended) {
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

Status TicketTable::release(std::span<const Ticket> tickets) {
    Status first = ok();
    std::array<Operation*, 64> ended{};
    std::size_t count = 0;
    const auto put_all_back = [&] {
        const std::lock_guard lock(mutex_);
        for (Operation* operation : std::span(ended).first(std::exchange(count, 0))) {
            put_back(*operation);
        }
    };
    for (const auto ticket : tickets) {
        const auto operation = find(ticket);
        const auto released = operation ? mark_released(**operation) : operation.error();
        if (released && *released) {
            clear(**operation);
            ended[count++] = *operation;
        } else if (!released && first) {
            first = released.error();
        }
        if (count == ended.size()) {
            put_all_back();
        }
    }
    put_all_back();
    return first;
}

void TicketTable::clear(Operation& operation) noexcept {
    operation.owned.reset();
    operation.staged.reset();
    operation.on_device.reset();
    operation.callback = nullptr;
    operation.callback_failed = false;
    operation.failed = false;
    operation.event.reset();
}

void TicketTable::recycle(Operation& operation) noexcept {
    clear(operation);
    const std::lock_guard lock(mutex_);
    put_back(operation);
}

void TicketTable::put_back(Operation& operation) noexcept {
    pool_.put_back(operation);
    for (Name* name : {operation.name, operation.group}) {
        if (name != nullptr) {
            names_.drop_user(*name);
        }
    }
}

}  // namespace hvd::rt
