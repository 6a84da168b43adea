// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/communicator.hpp"

#include "collectives/nccl/check.hpp"
#include "collectives/nccl/connection_info.hpp"

#include <algorithm>
#include <utility>

namespace hvd::coll::nccl {
namespace {

// Between looks at what the GPU has done: each takes microseconds.
constexpr std::chrono::microseconds kLook{100};

}  // namespace

// ---- the way of a task --------------------------------------------------------------------------

StreamWork::StreamWork(StreamCommunicator& communicator, const Task& task)
    : communicator_(communicator),
      launch_(communicator.across_
                  ? plan_hierarchical(task, communicator.set_, *communicator.across_)
                  : plan_launch(task, communicator.set_)),
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

/// Every stage but the last one waits only for what NCCL does by itself, for room, or for what
/// crosses from host to host.
Work::Progress StreamWork::advance() {
    if (stage_ == Stage::enqueued) {
        communicator_.look();
        return is_complete_ ? Progress::done : Progress::enqueued;
    }
    if (!communicator_.is_connected()) {
        return Progress::pending;
    }
    auto& gpu = communicator_.gpu_;
    auto& connection = *communicator_.connection_;
    const cuda::Device::Current current(gpu.device());
    if (stage_ == Stage::waits) {
        if (!launch_->has_room(gpu)) {
            return Progress::pending;
        }
        turn_ = gpu.begin_launch();
        if (turn_ == nullptr) {
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
    }
    auto step = Launch::Step::called;
    while (step == Launch::Step::called) {
        if (connection.is_in_progress() && !connection.is_ready()) {
            return Progress::pending;
        }
        step = launch_->next(gpu, connection);
    }
    if (step == Launch::Step::waits) {
        (void)connection.is_ready();  // throws where NCCL has failed
        return Progress::pending;
    }
    launch_->finish(gpu);
    done_ = gpu.record(gpu.stream());
    turn_.reset();
    stage_ = Stage::enqueued;
    return Progress::enqueued;
}

// ---- the communicator ---------------------------------------------------------------------------

StreamCommunicator::StreamCommunicator(const Backend& backend,
                                       const std::shared_ptr<LoadedLibrary>& library,
                                       const Place& where,
                                       ProcessSet set,
                                       std::unique_ptr<AcrossHosts> across,
                                       std::chrono::milliseconds connect_limit)
    : Communicator(backend.name()),
      preparation_(library, where.gpu, (across ? across->split.inside : set).place == 0),
      gpus_(where.all),
      gpu_(where.gpu),
      closing_(where.closing),
      buffers_(where.buffers),
      set_(std::move(set)),
      across_(std::move(across)),
      connect_limit_(connect_limit) {}

StreamCommunicator::~StreamCommunicator() {
    if (connection_) {
        closing_.add(std::move(connection_));
        closing_.step();
    }
}

std::optional<std::vector<std::byte>> StreamCommunicator::connection_info() {
    const auto* const made = preparation_.poll();
    if (made == nullptr) {
        return std::nullopt;
    }
    auto info = made->info;
    info.registers = !across_ && buffers_.are_possible(*made->library) ? 1 : 0;
    return encode(info);
}

void StreamCommunicator::connect(std::span<const std::byte> infos) {
    auto agreed = across_ ? compare_by_host(infos, set_) : compare(infos, set_);
    if (!agreed) {
        throw Exception(agreed.error());
    }
    agreed_ = *agreed;
}

/// A communicator may synchronise its GPU while it is made, and GPUs that see each other's memory,
/// so that it waits for the collectives before it on all of them. All members of those have them
/// before this one too, and come to their end.
bool StreamCommunicator::is_connected() {
    if (!connection_) {
        if (!gpus_.are_idle()) {
            return false;
        }
        closing_.step();
        const auto& members = across_ ? across_->split.inside : set_;
        connection_ = std::make_unique<Connection>(*preparation_.poll()->library, gpu_, agreed_->id,
                                                   members.size(), members.place, connect_limit_);
    }
    if (!connection_->is_ready()) {
        return false;
    }
    if (agreed_->registers && connection_->registered().empty()) {
        connection_->register_memory(buffers_.of(connection_->library(), gpu_));
    }
    if (across_ && across_->host != nullptr && across_->pinned.empty()) {
        across_->pinned = across_->buffers.of(gpu_);
    }
    return true;
}

/// Asks the GPU which collectives have completed, and NCCL for failures, unless that was done just
/// now. The stream completes in order, so its last event is asked for first.
void StreamCommunicator::look() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_look_) {
        return;
    }
    next_look_ = now + kLook;
    const auto end = std::ranges::find_if(in_flight_, [](const StreamWork* work) {
        return work->stage_ != StreamWork::Stage::enqueued;
    });
    const std::span enqueued(in_flight_.begin(), end);
    const bool are_all = enqueued.back()->done_->is_complete();
    if (are_all) {
        closing_.step();
    }
    for (auto* work : enqueued) {
        work->is_complete_ = work->is_complete_ || are_all || work->done_->is_complete();
        if (!work->is_complete_) {
            (void)connection_->is_ready();  // throws where NCCL has failed
            return;
        }
    }
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
    if (across_ && across_->host != nullptr) {
        across_->host->abort(cause);
    }
}

}  // namespace hvd::coll::nccl
