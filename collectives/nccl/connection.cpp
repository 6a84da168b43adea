// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/connection.hpp"

#include "collectives/nccl/check.hpp"

#include <thread>
#include <utility>

namespace hvd::coll::nccl {
namespace {

constexpr std::chrono::seconds kFinalizeLimit{1};
constexpr std::chrono::microseconds kPause{100};

}  // namespace

Connection::Connection(const Library& library,
                       const cuda::Gpu& gpu,
                       const ncclUniqueId& id,
                       int size,
                       int place,
                       std::chrono::milliseconds limit)
    : library_(library), gpu_(gpu), limit_(limit), connect_by_(Deadline::in(limit)) {
    const cuda::Device::Current current(gpu_.device());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    check(library_, library_.ncclCommInitRankConfig(&handle_, size, id, place, &config),
          "ncclCommInitRankConfig, making a communicator");
}

bool Connection::is_ready() {
    if (handle_ == nullptr) {
        throw Exception({Errc::aborted, "the communicator was aborted"});
    }
    auto state = ncclSuccess;
    check(library_, library_.ncclCommGetAsyncError(handle_, &state), "ncclCommGetAsyncError");
    check(library_, state, is_connected_ ? "a collective" : "making a communicator");
    is_in_progress_ = state == ncclInProgress;
    if (!is_in_progress_) {
        is_connected_ = true;
        has_run_ = has_begun_;
    } else if (!has_run_ && connect_by_.has_passed()) {
        throw Exception({Errc::timed_out,
                         "NCCL did not connect the ranks of a process set in time: a firewall, or "
                         "the wrong network (NCCL_SOCKET_IFNAME); NCCL_DEBUG=INFO says more; "
                         "HOROVOD_START_TIMEOUT is the limit"});
    }
    return !is_in_progress_;
}

void Connection::register_memory(std::span<std::byte> memory) {
    const cuda::Device::Current current(gpu_.device());
    check(library_,
          library_.ncclCommRegister(handle_, memory.data(), memory.size(), &registration_),
          "ncclCommRegister");
    registered_ = memory;
}

void Connection::deregister_memory() {
    registered_ = {};
    if (auto* const registration = std::exchange(registration_, nullptr)) {
        check(library_, library_.ncclCommDeregister(handle_, registration), "ncclCommDeregister");
    }
}

void Connection::note(ncclResult_t result, const char* what) {
    check(library_, result, what);
    is_in_progress_ = is_in_progress_ || result == ncclInProgress;
    if (!std::exchange(has_begun_, true)) {
        connect_by_ = Deadline::in(limit_);  // the first collective connects as well
    }
}

void Connection::abort() noexcept {
    if (handle_ == nullptr) {
        return;
    }
    try {
        const cuda::Device::Current current(gpu_.device());
        (void)library_.ncclCommAbort(handle_);
    } catch (const Exception&) {  // the driver has gone
    }
    handle_ = nullptr;
    registered_ = {};
    registration_ = nullptr;  // ended with the communicator
}

bool Connection::close() noexcept {
    if (handle_ == nullptr) {
        return true;
    }
    try {
        const cuda::Device::Current current(gpu_.device());
        if (!is_closing_) {
            if (!is_connected_ || is_in_progress_ || !is_ready()) {
                abort();
                return true;
            }
            deregister_memory();
            check(library_, library_.ncclCommFinalize(handle_), "ncclCommFinalize");
            is_closing_ = true;
        }
        if (!is_ready()) {
            return false;
        }
        (void)library_.ncclCommDestroy(std::exchange(handle_, nullptr));
    } catch (const Exception&) {
        abort();
    }
    return true;
}

Connection::~Connection() {
    const auto limit = Deadline::in(kFinalizeLimit);
    while (!close()) {
        if (limit.has_passed()) {
            abort();
            return;
        }
        std::this_thread::sleep_for(kPause);
    }
}

}  // namespace hvd::coll::nccl
