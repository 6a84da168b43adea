// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/communicator.hpp"

#include "collectives/nccl/check.hpp"
#include "collectives/nccl/introduction.hpp"

#include <algorithm>
#include <utility>

namespace hvd::coll::nccl {
namespace {

// Between looks at what the GPU does: each costs as much as a small collective.
constexpr std::chrono::microseconds kLook{100};

}  // namespace

// ---- the way of a task --------------------------------------------------------------------------

StreamWork::StreamWork(StreamCommunicator& communicator, const Task& task)
    : communicator_(communicator),
      launch_(plan_launch(task, communicator.set_)),
      ready_(task.ready) {
    communicator_.in_flight_.push_back(this);
}

StreamWork::~StreamWork() {
    std::erase(communicator_.in_flight_, this);
}

Result<Work::Progress> StreamWork::poll() {
    if (communicator_.aborted_) {
        return *communicator_.aborted_;
    }
    try {
        return advance();
    } catch (const Exception& exception) {
        return exception.error();
    }
}

/// Every stage but the last one waits only for what NCCL does by itself, or for room.
Work::Progress StreamWork::advance() {
    auto& gpu = communicator_.gpu_;
    auto& connection = communicator_.connection_.value();
    if (stage_ == Stage::enqueued) {
        const auto now = std::chrono::steady_clock::now();
        if (now < next_look_) {
            return Progress::enqueued;
        }
        next_look_ = now + kLook;
        if (done_->is_complete()) {
            return Progress::done;
        }
        (void)connection.is_ready();  // for what has failed meanwhile
        return Progress::enqueued;
    }
    if (!connection.is_ready()) {
        return Progress::pending;
    }
    const cuda::Device::Current current(gpu.device());
    if (stage_ == Stage::waits) {
        if (!launch_->has_room(gpu)) {
            return Progress::pending;
        }
        const DeviceEvent* last = nullptr;
        for (const auto* event : std::exchange(ready_, {})) {
            if (event != last) {
                event->hold_back(gpu.stream());
                last = event;
            }
        }
        launch_->call(gpu, connection);
        stage_ = Stage::called;
        if (connection.is_in_progress() && !connection.is_ready()) {
            return Progress::pending;
        }
    }
    launch_->finish(gpu);
    done_ = gpu.record(gpu.stream());
    stage_ = Stage::enqueued;
    next_look_ = std::chrono::steady_clock::now() + kLook;
    return Progress::enqueued;
}

// ---- the communicator ---------------------------------------------------------------------------

StreamCommunicator::StreamCommunicator(const Backend& backend,
                                       const Library& library,
                                       cuda::Gpu& gpu,
                                       ProcessSet set,
                                       std::chrono::milliseconds connect_limit)
    : Communicator(backend.name()),
      library_(library),
      gpu_(gpu),
      set_(std::move(set)),
      connect_limit_(connect_limit) {}

StreamCommunicator::~StreamCommunicator() = default;

std::vector<std::byte> StreamCommunicator::introduce() {
    Introduction own{.nccl_version = library_.version, .gpu = gpu_.uuid()};
    if (set_.place == 0) {
        const cuda::Device::Current current(gpu_.device());
        check(library_, library_.ncclGetUniqueId(&own.id), "ncclGetUniqueId");
    }
    return encode(own);
}

void StreamCommunicator::meet(std::span<const std::byte> introductions) {
    const auto id = compare(introductions, set_);
    if (!id) {
        throw Exception(id.error());
    }
    connection_.emplace(library_, gpu_, *id, set_.size(), set_.place, connect_limit_);
}

std::unique_ptr<Work> StreamCommunicator::do_start(const Task& task) {
    return std::make_unique<StreamWork>(*this, task);
}

void StreamCommunicator::do_abort(const Error& cause) {
    aborted_ = cause;
    for (const auto* work : in_flight_) {
        if (work->done_ != nullptr) {
            work->done_->invalidate();  // completed ones too: nobody has seen that yet
        }
    }
    if (connection_) {
        connection_->abort();
    }
}

}  // namespace hvd::coll::nccl
