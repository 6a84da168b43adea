// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/preparation.hpp"

#include "collectives/nccl/check.hpp"

#include <chrono>
#include <utility>

namespace hvd::coll::nccl {
namespace {

constexpr std::chrono::seconds kEndLimit{1};

}  // namespace

const Library& LoadedLibrary::load() {
    const std::lock_guard lock(mutex_);
    if (!library_) {
        auto opened = open_library({.named = named_, .folders = folders_of_pip()});
        if (!opened) {
            throw Exception(std::move(opened).error());
        }
        library_ = std::move(opened).value();
        log_.info("NCCL " + version_text(library_->version) + ", " + library_->path +
                  ", for tensors on GPUs");
    }
    return *library_;
}

Preparation::Preparation(std::shared_ptr<LoadedLibrary> library,
                         const cuda::Gpu& gpu,
                         bool is_first) {
    std::packaged_task<Made()> task([library = std::move(library), &gpu, is_first] {
        const auto& loaded = library->load();
        ConnectionInfo info{.nccl_version = loaded.version, .gpu = gpu.uuid()};
        if (is_first) {
            const cuda::Device::Current current(gpu.device());
            check(loaded, loaded.ncclGetUniqueId(&info.id), "ncclGetUniqueId");
        }
        return Made{&loaded, info};
    });
    coming_ = task.get_future();
    thread_ = std::thread(std::move(task));
}

Preparation::~Preparation() {
    if (!thread_.joinable()) {
        return;
    }
    if (coming_.wait_for(kEndLimit) == std::future_status::ready) {
        thread_.join();
    } else {
        thread_.detach();
    }
}

const Preparation::Made* Preparation::poll() {
    if (thread_.joinable() &&
        coming_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
        thread_.join();
        made_ = coming_.get();
    }
    return made_ ? &*made_ : nullptr;
}

}  // namespace hvd::coll::nccl
