// SPDX-License-Identifier: Apache-2.0
#include "runtime/execution/executor.hpp"

#include "collectives/reduce/local_result.hpp"
#include "runtime/execution/batches.hpp"
#include "runtime/execution/connecting.hpp"
#include "runtime/execution/task_builder.hpp"

#include <algorithm>
#include <utility>

namespace hvd::rt {
namespace {

using Clock = std::chrono::steady_clock;

// Between looks at a device: for what waits to go there, and for what is there and may have failed.
constexpr std::chrono::microseconds kStartLook{100};
constexpr std::chrono::milliseconds kStreamLook{1};

// The exchange of members before they connect.
const coll::Task kExchange{.op = coll::Op::allgather, .type = coll::DataType::u8};

/// Whether its values change their places or their type on the way.
bool is_packed(const coll::Task& task) {
    return task.segments.size() > 1 || task.wire != coll::Wire::own;
}

}  // namespace

Executor::Executor(Setup setup, TicketTable& tickets)
    : setup_(std::move(setup)),
      tickets_(tickets),
      lanes_(setup_.backends),
      idle_release_(setup_.backends, setup_.idle_limit) {}

bool Executor::has_room(int process_set) const noexcept {
    const auto* const set = lanes_.find(process_set);
    return set == nullptr || set->has_room();
}

std::size_t Executor::usual_fusion_bytes(coll::Device::Kind device) const {
    if (device != coll::Device::Kind::host) {
        const coll::Task task{.device = {.kind = device}};
        if (const auto* const backend = setup_.backends.pick(task, {})) {
            return backend->fusion_bytes();
        }
    }
    return setup_.backends.all.front()->fusion_bytes();
}

// ---- the way of a batch -------------------------------------------------------------------------

void Executor::enqueue(std::span<Operation* const> leaders,
                       std::optional<std::size_t> fusion_bytes) {
    auto& all = lanes_.of(*leaders.front()->set);
    show(Moment::agreed, leaders);
    all.count_waits(leaders);
    // The common case, and the one where a few hundred nanoseconds count.
    if (leaders.size() == 1 && leaders.front()->next == nullptr) {
        leaders.front()->unfinished = 1;
        lanes_.add(all, {leaders.front()}, device_order_);
        return;
    }
    const auto usual = usual_fusion_bytes(leaders.front()->signature.device.kind);
    for (auto& batch : fuse(leaders, fusion_bytes.value_or(usual))) {
        lanes_.add(all, std::move(batch), device_order_);
    }
}

bool Executor::is_like_local_result(const coll::ProcessSet& set) const {
    // Backends of the host take any task on its memory, or none of the set.
    const auto* const backend = setup_.backends.pick(coll::Task{}, set);
    return backend != nullptr && backend->is_like_local_result();
}

void Executor::run(Operation& operation, std::span<const std::byte* const> inputs) {
    Operation* const only = &operation;
    if (broken_) {
        enqueue({&only, 1}, {});
        return;
    }
    auto& all = lanes_.of(*operation.set);
    const auto& set = all.set->set;
    show(Moment::agreed, {&only, 1});
    if (operation.is_timed) {
        all.count_waits({&only, 1});
    }
    build_task({&only, 1}, set, task_);
    const auto bytes = coll::input_bytes(task_);
    totals_.collectives += 1;
    totals_.bytes += bytes;
    auto& metrics = all.metrics.of(task_.op);
    const bool is_timed = metrics.collectives % kTimedOneIn == 0;
    metrics.count(1, bytes);
    const auto started = is_timed ? Clock::now() : Clock::time_point{};
    if (tickets_.observer() != nullptr) {
        show(Moment::started, {&only, 1}, setup_.backends.pick(task_, set)->name());
    }
    inputs_.assign(inputs.begin(), inputs.end());
    coll::LocalResult(task_, set.size()).write(task_, set.place, inputs_);
    if (is_timed) {
        ++metrics.timed;
        metrics.wire += Clock::now() - started;
    }
    operation.unfinished = 1;
    complete_member(tickets_, operation);
}

bool Executor::step() {
    bool has_moved = false;
    bool has_idle = false;
    for (Lane* lane : lanes_.active()) {
        has_moved = step(*lane) || has_moved;
        has_idle = has_idle || lane->is_idle();
    }
    if (has_idle) {
        lanes_.retire_idle();
    }
    if (lanes_.active().empty()) {
        idle_release_.release_if_due();
    }
    return has_moved;
}

bool Executor::step(Lane& lane) {
    bool has_moved = false;
    // Several small ones in a row: the caller's loop has other things to look at now and then.
    for (int round = 0; round < 16; ++round) {
        while (may_start(lane)) {
            start_next(lane);
            has_moved = true;
        }
        if (lane.running.empty() || !poll(lane)) {
            return has_moved;
        }
        has_moved = true;
    }
    return has_moved;
}

bool Executor::may_start(const Lane& lane) const {
    if (lane.queue.empty() || !lane.has_slot() || (!lane.is_connected && !broken_)) {
        return false;
    }
    return !lane.is_on_device() || device_order_.is_turn_of(lane);
}

/// Polls the collectives in flight, and completes those that have ended or are in a device's
/// stream. True if one has.
bool Executor::poll(Lane& lane) {
    // The work in a stream is asked last: a query takes as long as a launch of the next work.
    const std::size_t first = lane.running.front().is_enqueued ? 1 : 0;
    for (std::size_t turn = 0; turn < lane.running.size(); ++turn) {
        const std::size_t index = (first + turn) % lane.running.size();
        auto& running = lane.running[index];
        if (index != 0 && (running.is_enqueued || running.has_ended)) {
            continue;  // a stream ends in order
        }
        const auto progress =
            running.has_ended ? Result(coll::Work::Progress::done) : running.work->poll();
        if (!progress) {
            auto failed = std::move(running);
            lane.running.erase(lane.running.begin() + static_cast<std::ptrdiff_t>(index));
            failed.work.reset();
            if (!failed.is_enqueued && lane.is_on_device()) {
                device_order_.end();
            }
            on_failure(lane, failed.is_enqueued ? Batch() : failed.operations, progress.error());
            return true;
        }
        if (*progress == coll::Work::Progress::done && index == 0) {
            finish_first(lane);
            return true;
        }
        if (*progress == coll::Work::Progress::done && running.limit == 1) {
            running.has_ended = true;
        }
        // A result in the workspace is copied into the caller's memory only at the end, so its
        // operations cannot complete early.
        if (*progress != coll::Work::Progress::pending && running.workspace.empty() &&
            !running.is_enqueued) {
            running.is_enqueued = true;
            if (lane.is_on_device()) {
                device_order_.end();
            }
            const auto event = running.work->event();
            for (Operation* operation : std::exchange(running.operations, {})) {
                operation->event = event;
                complete_member(tickets_, *operation);
            }
            return true;
        }
    }
    return false;
}

void Executor::finish_first(Lane& lane) {
    auto running = std::move(lane.running.front());
    lane.running.pop_front();
    running.work.reset();
    if (running.is_enqueued) {
        idle_release_.on_work_ended();
    } else if (lane.is_on_device()) {
        device_order_.end();
    }
    if (running.connects != nullptr) {
        running.connects->is_connected = true;
        return;
    }
    const bool is_timed = running.started != Clock::time_point{};
    const auto ended = is_timed ? Clock::now() : Clock::time_point{};
    if (!running.workspace.empty()) {
        show(Moment::unpacking, running.operations);
        unpack(running.workspace, running.operations, lane.set());
    }
    if (is_timed) {
        auto& metrics = lane.siblings->metrics.of(running.op);
        metrics.wire += ended - running.started;
        metrics.copy += running.workspace.empty() ? Clock::duration(0) : Clock::now() - ended;
    }
    if (!running.is_enqueued) {
        for (Operation* operation : running.operations) {
            complete_member(tickets_, *operation);
        }
    }
}

void Executor::start_next(Lane& lane) {
    // The batch stays in the queue, where `abort` finds it, until it has started.
    if (lane.is_on_device()) {
        device_order_.begin();
    }
    auto& first = lane.queue.front();
    auto started = first.connects != nullptr ? start_connecting(lane, *first.connects)
                                             : start(lane, first.operations);
    auto batch = std::move(first.operations);
    lane.queue.pop_front();
    if (!started) {
        if (lane.is_on_device()) {
            device_order_.end();
        }
        on_failure(lane, batch, started.error());
        return;
    }
    started->operations = std::move(batch);
    lane.running.push_back(std::move(started).value());
}

/// Through `host`, the lane of the same set.
Result<RunningBatch> Executor::start_connecting(Lane& host, Lane& lane) {
    if (broken_) {
        return *broken_;
    }
    const auto& batch = lane.queue.front().operations;
    build_task(batch, lane.set(), task_);
    HVD_TRY(const auto way, lane.communicators.choose(task_));
    HVD_TRY(const auto host_way, host.communicators.choose(kExchange));
    show(Moment::connecting, batch, way.backend->name());
    RunningBatch running;
    running.connects = &lane;
    running.work = std::make_unique<Connecting>(*way.communicator, *host_way.communicator,
                                                static_cast<std::size_t>(lane.set().size()));
    return running;
}

Result<RunningBatch> Executor::start(Lane& lane, const Batch& batch) {
    if (broken_) {
        return *broken_;
    }
    build_task(batch, lane.set(), task_);
    HVD_TRY(const auto way, lane.communicators.choose(task_));
    RunningBatch running;
    const auto bytes = coll::input_bytes(task_);
    totals_.collectives += 1;
    totals_.bytes += bytes;
    auto& metrics = lane.siblings->metrics.of(task_.op);
    const bool is_timed =
        batch.size() > 1 || bytes >= kAlwaysTimedBytes || metrics.collectives % kTimedOneIn == 0;
    metrics.count(batch.size(), bytes);
    running.limit = way.backend->max_in_flight();
    running.op = task_.op;
    if (is_timed) {
        ++metrics.timed;
        running.started = Clock::now();
    }
    if (is_packed(task_) && !way.communicator->gathers(task_)) {
        running.workspace = way.communicator->workspace(bytes);
        if (running.workspace.size() < bytes) {
            return Error{Errc::internal, "a backend has no workspace for a fused message"};
        }
        show(Moment::packing, batch);
        pack(task_, lane.set().place, running.workspace);
        if (is_timed) {
            const auto packed = Clock::now();
            metrics.copy += packed - std::exchange(running.started, packed);
        }
    }
    show(Moment::started, batch, way.backend->name());
    HVD_TRY(running.work, way.communicator->start(task_));
    return running;
}

Metrics Executor::metrics() const {
    Metrics metrics;
    for (const auto& [id, all] : lanes_.open()) {
        all->metrics.list(all->set->set, metrics);
    }
    return metrics;
}

bool Executor::is_waiting() const noexcept {
    return std::ranges::any_of(lanes_.active(),
                               [](const Lane* lane) { return lane->is_waiting(); });
}

Deadline Executor::next_look() const {
    bool has_enqueued = false;
    for (const Lane* lane : lanes_.active()) {
        has_enqueued =
            has_enqueued || (!lane->running.empty() && lane->running.front().is_enqueued);
    }
    if (!device_order_.empty()) {
        return Deadline::in(kStartLook);
    }
    if (has_enqueued) {
        return Deadline::in(kStreamLook);
    }
    return lanes_.active().empty() ? idle_release_.due() : Deadline::never();
}

// ---- stalls -------------------------------------------------------------------------------------

void Executor::note_time(std::chrono::steady_clock::time_point now) {
    for (Lane* lane : lanes_.active()) {
        lane->note_time(now);
    }
}

void Executor::list_in_flight(std::vector<Waiting>& list) const {
    for (const Lane* lane : lanes_.active()) {
        lane->list_in_flight(list);
    }
}

// ---- ends ---------------------------------------------------------------------------------------

void Executor::end(int process_set, const Error& cause) {
    if (auto* const all = lanes_.find(process_set)) {
        all->end = cause;
    }
}

bool Executor::is_ending() const noexcept {
    return std::ranges::any_of(lanes_.active(),
                               [](const Lane* lane) { return lane->siblings->end.has_value(); });
}

void Executor::abort_ending() {
    for (const Lane* lane : lanes_.active()) {
        if (lane->siblings->end) {
            lane->siblings->abort(tickets_, device_order_);
        }
    }
    lanes_.retire_idle();
}

void Executor::abort(const Error& cause) {
    broken_ = broken_.value_or(cause);
    lanes_.for_each([&](Lane& lane) { lane.abort(cause); });
    device_order_.clear();
    lanes_.for_each([&](Lane& lane) { lane.fail_all(tickets_, cause); });
    lanes_.retire_idle();
}

/// `batch` has failed to start or to end.
void Executor::on_failure(Lane& lane, const Batch& batch, const Error& error) {
    if (!lane.siblings->end) {
        broken_ = broken_.value_or(error);
        fail_batch(tickets_, batch, *broken_);
        return;
    }
    lane.siblings->abort(tickets_, device_order_);
    fail_batch(tickets_, batch, *lane.siblings->end);
}

void Executor::show(Moment moment,
                    std::span<Operation* const> operations,
                    std::string_view backend) const {
    if (auto* const observer = tickets_.observer()) {
        observer->on(moment, operations, backend);
    }
}

}  // namespace hvd::rt
