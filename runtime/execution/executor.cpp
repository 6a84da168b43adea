// SPDX-License-Identifier: Apache-2.0
#include "runtime/execution/executor.hpp"

#include "collectives/reduce/local_result.hpp"
#include "runtime/execution/batches.hpp"
#include "runtime/execution/task_builder.hpp"

#include <algorithm>
#include <utility>

namespace hvd::rt {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Executor::Executor(Setup setup, TicketTable& tickets)
    : setup_(std::move(setup)), tickets_(tickets) {}

Executor::~Executor() {
    for (auto& [id, lane] : lanes_) {
        ProcessSetTable::release(*lane->set);
    }
    for (auto& lane : closing_) {
        ProcessSetTable::release(*lane->set);
    }
}

// ---- lanes --------------------------------------------------------------------------------------

Lane& Executor::lane_of(ProcessSetEntry& set) {
    auto& lane = lanes_[set.set.id];
    if (!lane) {
        lane = std::make_unique<Lane>();
        lane->set = &set;
        set.users.fetch_add(1, std::memory_order_relaxed);
        lane->communicators.resize(setup_.backends.size());
    }
    return *lane;
}

void Executor::activate(Lane& lane) {
    if (lane.is_idle()) {
        active_.push_back(&lane);
    }
}

bool Executor::has_room(int process_set) const noexcept {
    const auto lane = lanes_.find(process_set);
    return lane == lanes_.end() || lane->second->has_room();
}

void Executor::close(int process_set) {
    const auto found = lanes_.find(process_set);
    if (found == lanes_.end()) {
        return;
    }
    auto lane = std::move(found->second);
    lanes_.erase(found);
    if (lane->is_idle()) {
        ProcessSetTable::release(*lane->set);
    } else {
        closing_.push_back(std::move(lane));
    }
}

void Executor::retire_idle() {
    for (std::size_t index = 0; index < active_.size();) {
        Lane& lane = *active_[index];
        if (!lane.is_idle()) {
            ++index;
            continue;
        }
        active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(index));
        const auto closing =
            std::ranges::find(closing_, &lane, [](const auto& each) { return each.get(); });
        if (closing != closing_.end()) {
            ProcessSetTable::release(*lane.set);
            closing_.erase(closing);
        }
    }
}

std::size_t Executor::usual_fusion_bytes() const {
    return setup_.backends.front()->fusion_bytes();
}

// ---- the way of a batch -------------------------------------------------------------------------

void Executor::enqueue(std::span<Operation* const> leaders,
                       std::optional<std::size_t> fusion_bytes) {
    Lane& lane = lane_of(*leaders.front()->set);
    activate(lane);
    show(Moment::agreed, leaders);
    count_waits(lane, leaders);
    // The common case, and the one where a few hundred nanoseconds count.
    if (leaders.size() == 1 && leaders.front()->next == nullptr) {
        leaders.front()->unfinished = 1;
        lane.queue.push_back({leaders.front()});
        return;
    }
    for (auto& batch : fuse(leaders, fusion_bytes.value_or(usual_fusion_bytes()))) {
        lane.queue.push_back(std::move(batch));
    }
}

bool Executor::is_like_local_result(const coll::ProcessSet& set) const {
    // Backends of the host take any task on its memory, or none of the set.
    const auto* const backend = setup_.select(setup_.backends, coll::Task{}, set);
    return backend != nullptr && backend->is_like_local_result();
}

void Executor::run(Operation& operation, std::span<const std::byte* const> inputs) {
    Operation* const only = &operation;
    if (broken_) {
        enqueue({&only, 1}, {});
        return;
    }
    Lane& lane = lane_of(*operation.set);
    const auto& set = lane.set->set;
    show(Moment::agreed, {&only, 1});
    if (operation.is_timed) {
        count_waits(lane, {&only, 1});
    }
    build_task({&only, 1}, set, task_);
    const auto bytes = coll::input_bytes(task_);
    totals_.collectives += 1;
    totals_.bytes += bytes;
    auto& metrics = lane.metrics.of(task_.op);
    const bool is_timed = metrics.collectives % kTimedOneIn == 0;
    metrics.count(1, bytes);
    const auto started = is_timed ? Clock::now() : Clock::time_point{};
    if (tickets_.observer() != nullptr) {
        show(Moment::started, {&only, 1}, setup_.select(setup_.backends, task_, set)->name());
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

/// Adds how long the groups have waited for the other ranks, where that was measured.
void Executor::count_waits(Lane& lane, std::span<Operation* const> leaders) {
    std::optional<std::chrono::steady_clock::time_point> now;
    for (const Operation* leader : leaders) {
        if (leader->is_timed && !leader->is_neutral) {
            now = now ? now : std::chrono::steady_clock::now();
            lane.metrics.count_wait(leader->signature.op, lane.set->set, leader->last_rank,
                                    *now - leader->since);
        }
    }
}

bool Executor::step() {
    bool has_moved = false;
    bool has_idle = false;
    for (Lane* lane : active_) {
        has_moved = step(*lane) || has_moved;
        has_idle = has_idle || lane->is_idle();
    }
    if (has_idle) {
        retire_idle();
    }
    return has_moved;
}

bool Executor::step(Lane& lane) {
    bool has_moved = false;
    // Several small ones in a row: the caller's loop has other things to look at now and then.
    for (int round = 0; round < 16; ++round) {
        while (!lane.queue.empty() &&
               lane.running.size() < static_cast<std::size_t>(lane.max_in_flight)) {
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

/// Polls the collectives in flight, and completes those that have ended. True if one has.
bool Executor::poll(Lane& lane) {
    for (std::size_t index = 0; index < lane.running.size(); ++index) {
        auto& running = lane.running[index];
        const auto progress = running.work->poll();
        if (!progress) {
            auto failed = std::move(running);
            lane.running.erase(lane.running.begin() + static_cast<std::ptrdiff_t>(index));
            failed.work.reset();
            on_failure(lane, failed.is_enqueued ? Batch() : failed.operations, progress.error());
            return true;
        }
        if (*progress == coll::Work::Progress::done && index == 0) {
            finish_first(lane);
            return true;
        }
        // A result in the workspace is copied into the caller's memory only at the end, so its
        // operations cannot complete early.
        if (*progress != coll::Work::Progress::pending && running.workspace.empty() &&
            !running.is_enqueued) {
            running.is_enqueued = true;
            for (Operation* operation : running.operations) {
                operation->event = running.work->event();
                complete_member(tickets_, *operation);
            }
        }
    }
    return false;
}

void Executor::finish_first(Lane& lane) {
    auto running = std::move(lane.running.front());
    lane.running.pop_front();
    running.work.reset();
    const bool is_timed = running.started != Clock::time_point{};
    const auto ended = is_timed ? Clock::now() : Clock::time_point{};
    if (!running.workspace.empty()) {
        show(Moment::unpacking, running.operations);
        unpack(running.workspace, running.operations);
    }
    if (is_timed) {
        auto& metrics = lane.metrics.of(running.operations.front()->signature.op);
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
    auto started = start(lane, lane.queue.front());
    auto batch = std::move(lane.queue.front());
    lane.queue.pop_front();
    if (!started) {
        on_failure(lane, batch, started.error());
        return;
    }
    started->operations = std::move(batch);
    lane.running.push_back(std::move(started).value());
}

Result<coll::Communicator*> Executor::communicator_for(Lane& lane, const coll::Task& task) {
    auto* const backend = setup_.select(setup_.backends, task, lane.set->set);
    if (backend == nullptr) {
        return Error{Errc::unsupported, "no backend can run this collective"};
    }
    const auto index = static_cast<std::size_t>(
        std::ranges::find(setup_.backends, backend, [](const auto& each) { return each.get(); }) -
        setup_.backends.begin());
    lane.max_in_flight = backend->max_in_flight();
    lane.backend = backend->name();
    auto& communicator = lane.communicators[index];
    if (!communicator) {
        communicator = backend->open(lane.set->set);
    }
    return communicator.get();
}

Result<RunningBatch> Executor::start(Lane& lane, const Batch& batch) {
    if (broken_) {
        return *broken_;
    }
    build_task(batch, lane.set->set, task_);
    HVD_TRY(auto* const communicator, communicator_for(lane, task_));
    const auto bytes = coll::input_bytes(task_);
    totals_.collectives += 1;
    totals_.bytes += bytes;
    auto& metrics = lane.metrics.of(task_.op);
    const bool is_timed =
        batch.size() > 1 || bytes >= kAlwaysTimedBytes || metrics.collectives % kTimedOneIn == 0;
    metrics.count(batch.size(), bytes);
    RunningBatch running;
    if (is_timed) {
        ++metrics.timed;
        running.started = Clock::now();
    }
    if (task_.segments.size() > 1 && !communicator->gathers(task_)) {
        running.workspace = communicator->workspace(bytes);
        if (running.workspace.size() < bytes) {
            return Error{Errc::internal, "a backend has no workspace for a fused message"};
        }
        show(Moment::packing, batch);
        pack(task_, lane.set->set.place, running.workspace);
        if (is_timed) {
            const auto packed = Clock::now();
            metrics.copy += packed - std::exchange(running.started, packed);
        }
    }
    show(Moment::started, batch, lane.backend);
    HVD_TRY(running.work, communicator->start(task_));
    return running;
}

Metrics Executor::metrics() const {
    Metrics metrics;
    for (const auto& [id, lane] : lanes_) {
        lane->metrics.list(lane->set->set, metrics);
    }
    return metrics;
}

// ---- stalls -------------------------------------------------------------------------------------

void Executor::note_time(std::chrono::steady_clock::time_point now) {
    for (Lane* lane : active_) {
        for (auto& running : lane->running) {
            if (running.since == std::chrono::steady_clock::time_point{}) {
                running.since = now;
            }
        }
    }
}

void Executor::list_in_flight(std::vector<Waiting>& list) const {
    for (const Lane* lane : active_) {
        lane->list_in_flight(list);
    }
}

// ---- ends ---------------------------------------------------------------------------------------

void Executor::end(int process_set, const Error& cause) {
    if (const auto found = lanes_.find(process_set); found != lanes_.end()) {
        found->second->end = cause;
    }
}

bool Executor::is_ending() const noexcept {
    return std::ranges::any_of(active_, [](const Lane* lane) { return lane->end.has_value(); });
}

void Executor::abort_ending() {
    for (Lane* lane : active_) {
        if (lane->end) {
            lane->abort(*lane->end);
            lane->fail_all(tickets_, *lane->end);
        }
    }
    retire_idle();
}

void Executor::abort(const Error& cause) {
    broken_ = broken_.value_or(cause);
    const auto for_each_lane = [&](const auto& action) {
        for (const auto& [id, lane] : lanes_) {
            action(*lane);
        }
        for (const auto& lane : closing_) {
            action(*lane);
        }
    };
    for_each_lane([&](Lane& lane) { lane.abort(cause); });
    for_each_lane([&](Lane& lane) { lane.fail_all(tickets_, cause); });
    retire_idle();
}

/// `batch` has failed to start or to end.
void Executor::on_failure(Lane& lane, const Batch& batch, const Error& error) {
    if (!lane.end) {
        broken_ = broken_.value_or(error);
        fail_batch(tickets_, batch, *broken_);
        return;
    }
    lane.abort(*lane.end);
    fail_batch(tickets_, batch, *lane.end);
    lane.fail_all(tickets_, *lane.end);
}

void Executor::show(Moment moment,
                    std::span<Operation* const> operations,
                    std::string_view backend) const {
    if (auto* const observer = tickets_.observer()) {
        observer->on(moment, operations, backend);
    }
}

}  // namespace hvd::rt
