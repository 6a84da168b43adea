// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/log.hpp"
#include "collectives/cuda/gpu.hpp"
#include "collectives/nccl/connection_info.hpp"
#include "collectives/nccl/library.hpp"

#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace hvd::coll::nccl {

/// The NCCL of a world, loaded by the first that needs it.
///
/// Thread: any.
class LoadedLibrary {
public:
    /// `named`: HOROVOD_NCCL_LIBRARY; empty: the one that is found.
    LoadedLibrary(std::string named, Logger log) : named_(std::move(named)), log_(std::move(log)) {}

    /// May take hundreds of milliseconds. The result lasts as long as this object. Throws
    /// Exception.
    [[nodiscard]] const Library& load();

private:
    std::string named_;
    Logger log_;
    std::mutex mutex_;
    std::optional<Library> library_;  // guarded by mutex_; unchanged once it is there
};

/// A rank's part of NCCL before the members of a process set connect: the library and, at place 0,
/// a unique id. Both take long, so they are made on a separate thread and not by the holder of the
/// progress lock.
///
/// Thread: progress lock. The destructor waits for that thread, for a second at most: a file system
/// or a network may be stuck. Then the thread goes on alone, with the library that it shares.
class Preparation {
public:
    struct Made {
        const Library* library;
        ConnectionInfo info;
    };

    /// The thread shares the library. The GPU lasts as long as the process.
    Preparation(std::shared_ptr<LoadedLibrary> library, const cuda::Gpu& gpu, bool is_first);
    Preparation(const Preparation&) = delete;
    Preparation& operator=(const Preparation&) = delete;
    ~Preparation();

    /// nullptr while it is being made. Never blocks. Throws the Exception that the thread has met.
    [[nodiscard]] const Made* poll();

private:
    std::optional<Made> made_;
    std::future<Made> coming_;
    std::thread thread_;
};

}  // namespace hvd::coll::nccl
