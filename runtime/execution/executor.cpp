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

// Between looks at a device: for what waits to go there, and for what is there and may have failed.
constexpr std::chrono::microseconds kStartLook{100};
constexpr std::chrono::milliseconds kStreamLook{1};

bool is_on_device(const Batch& batch) {
    return batch.front()->signature.device != coll::Device::Kind::host;
}

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
        lane->have_met.resize(setup_.backends.size());
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

std::size_t Executor::usual_fusion_bytes(coll::Device::Kind device) const {
    if (device != coll::Device::Kind::host) {
        const coll::Task task{.device = {.kind = device}};
        if (const auto* const backend = setup_.select(setup_.backends, task, {})) {
            return backend->fusion_bytes();
        }
    }
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
        queue(lane, {leaders.front()});
        return;
    }
    const auto usual = usual_fusion_bytes(leaders.front()->signature.device);
    for (auto& batch : fuse(leaders, fusion_bytes.value_or(usual))) {
        queue(lane, std::move(batch));
    }
}

void Executor::queue(Lane& lane, Batch batch) {
    if (is_on_device(batch)) {
        device_order_.push_back(&lane);
    }
    lane.queue.push_back(std::move(batch));
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
    if (lane.queue.empty() || !lane.has_slot()) {
        return false;
    }
    return !is_on_device(lane.queue.front()) ||
           (device_order_.front() == &lane && !is_device_starting_);
}

/// Polls the collectives in flight, and completes those that have ended or are in a device's
/// stream. True if one has.
bool Executor::poll(Lane& lane) {
    for (std::size_t index = 0; index < lane.running.size(); ++index) {
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
            if (!failed.is_enqueued && !failed.operations.empty() &&
                is_on_device(failed.operations)) {
                start_has_ended();
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
            if (is_on_device(running.operations)) {
                start_has_ended();
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
    if (running.meeting != nullptr) {
        running.meeting->meet(std::span(running.introductions).first(running.introduction_bytes));
        return;
    }
    const bool is_timed = running.started != Clock::time_point{};
    const auto ended = is_timed ? Clock::now() : Clock::time_point{};
    if (!running.workspace.empty()) {
        show(Moment::unpacking, running.operations);
        unpack(running.workspace, running.operations);
    }
    if (is_timed) {
        auto& metrics = lane.metrics.of(running.op);
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
    const bool on_device = is_on_device(lane.queue.front());
    is_device_starting_ = is_device_starting_ || on_device;
    auto started = start(lane, lane.queue.front());
    if (started && started->meeting != nullptr) {
        is_device_starting_ = false;
        lane.running.push_back(std::move(started).value());
        return;
    }
    auto batch = std::move(lane.queue.front());
    lane.queue.pop_front();
    if (!started) {
        if (on_device) {
            start_has_ended();
        }
        on_failure(lane, batch, started.error());
        return;
    }
    started->operations = std::move(batch);
    lane.running.push_back(std::move(started).value());
}

/// The first batch on a device is in the stream, or never will be.
void Executor::start_has_ended() {
    device_order_.pop_front();
    is_device_starting_ = false;
}

void Executor::leave_device_order(Lane& lane) {
    if (!device_order_.empty() && device_order_.front() == &lane) {
        is_device_starting_ = false;
    }
    std::erase(device_order_, &lane);
}

/// The position of the backend for the task, whose communicator is there then.
Result<std::size_t> Executor::backend_for(Lane& lane, const coll::Task& task) {
    auto* const backend = setup_.select(setup_.backends, task, lane.set->set);
    if (backend == nullptr) {
        return Error{Errc::unsupported, "no backend can run this collective"};
    }
    const auto index = static_cast<std::size_t>(
        std::ranges::find(setup_.backends, backend, [](const auto& each) { return each.get(); }) -
        setup_.backends.begin());
    auto& communicator = lane.communicators[index];
    if (!communicator) {
        communicator = backend->open(lane.set->set);
    }
    return index;
}

/// Begins to exchange what the members of a communicator tell each other before its first task:
/// through the host's memory, as any allgather of this set. Without a work where they need not.
Result<RunningBatch> Executor::introduce(Lane& lane, std::size_t backend) {
    RunningBatch meeting;
    if (lane.have_met[backend]) {
        return meeting;
    }
    lane.have_met[backend] = true;
    auto& communicator = *lane.communicators[backend];
    const auto own = communicator.introduce();
    if (own.empty()) {
        return meeting;
    }
    const auto& set = lane.set->set;
    const auto members = static_cast<std::size_t>(set.size());
    const coll::Task shape{.op = coll::Op::allgather, .type = coll::DataType::u8};
    HVD_TRY(const auto host, backend_for(lane, shape));
    // Both are in one piece of memory, which the running batch keeps.
    meeting.introductions.resize((members + 1) * own.size());
    std::ranges::copy(
        own, meeting.introductions.begin() + static_cast<std::ptrdiff_t>(members * own.size()));
    auto task = shape;
    task.segments.push_back({.in = meeting.introductions.data() + members * own.size(),
                             .out = meeting.introductions.data(),
                             .count = own.size(),
                             .counts = std::vector<std::size_t>(members, own.size())});
    HVD_TRY(meeting.work, lane.communicators[host]->start(task));
    meeting.introduction_bytes = members * own.size();
    meeting.meeting = &communicator;
    return meeting;
}

Result<RunningBatch> Executor::start(Lane& lane, const Batch& batch) {
    if (broken_) {
        return *broken_;
    }
    build_task(batch, lane.set->set, task_);
    HVD_TRY(const auto index, backend_for(lane, task_));
    HVD_TRY(auto meeting, introduce(lane, index));
    if (meeting.work != nullptr) {
        return meeting;
    }
    auto* const communicator = lane.communicators[index].get();
    lane.backend = setup_.backends[index]->name();
    const auto bytes = coll::input_bytes(task_);
    totals_.collectives += 1;
    totals_.bytes += bytes;
    auto& metrics = lane.metrics.of(task_.op);
    const bool is_timed =
        batch.size() > 1 || bytes >= kAlwaysTimedBytes || metrics.collectives % kTimedOneIn == 0;
    metrics.count(batch.size(), bytes);
    RunningBatch running;
    running.limit = setup_.backends[index]->max_in_flight();
    running.op = task_.op;
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

bool Executor::is_waiting() const noexcept {
    return std::ranges::any_of(active_, [](const Lane* lane) { return lane->is_waiting(); });
}

Deadline Executor::next_look() const {
    bool has_enqueued = false;
    for (const Lane* lane : active_) {
        has_enqueued =
            has_enqueued || (!lane->running.empty() && lane->running.front().is_enqueued);
    }
    if (!device_order_.empty()) {
        return Deadline::in(kStartLook);
    }
    return has_enqueued ? Deadline::in(kStreamLook) : Deadline::never();
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
            leave_device_order(*lane);
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
    device_order_.clear();
    is_device_starting_ = false;
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
    leave_device_order(lane);
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
