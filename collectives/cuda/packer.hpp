// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/cuda/handle.hpp"
#include "collectives/cuda/pack_plan.hpp"

#include <array>
#include <cstddef>
#include <map>
#include <span>
#include <string_view>

namespace hvd::coll::cuda {

/// Packs tensors of a GPU into one buffer and unpacks them, in one stream. Kernels and the memory
/// of their tables are there from the start, so that nothing waits for the device later.
///
/// Thread: the holder of the progress lock, with Device::Current.
class Packer {
public:
    /// Loads the kernels. Throws Exception; Errc::unsupported where this build has none for the
    /// GPU. The references outlive the packer.
    Packer(const Driver& driver, const Device& device, CUstream stream);
    Packer(const Packer&) = delete;
    Packer& operator=(const Packer&) = delete;
    ~Packer() = default;

    /// Tensors of one launch: as many as travel as one collective (coll::kMostOnDevice).
    static constexpr std::size_t kMostEntries = kMostOnDevice;

    /// Whether so many launches (at most 4) find a table that no earlier one uses.
    [[nodiscard]] bool has_room(int launches);

    /// Enqueues a launch, which needs room. `entries` are laid out in `fused`, and at most
    /// kMostEntries.
    void run(const PackChange& change,
             bool is_pack,
             std::span<const PackEntry> entries,
             std::byte* fused);

    /// For other kernels with a table, which needs room, of at most the size of kMostEntries: puts
    /// it on the device, enqueues launches, and ends its use. One at a time.
    [[nodiscard]] const std::byte* load(std::span<const std::byte> table);
    void launch(std::string_view kernel, unsigned blocks, unsigned threads, void* arguments) const;
    void unload();

    /// Of the GPU.
    [[nodiscard]] unsigned processors() const noexcept { return processors_; }

private:
    static constexpr std::size_t kTables = 32;

    /// A table of entries on both sides, and the event of its last use.
    struct Table {
        std::byte* on_host = nullptr;
        CUdeviceptr on_device = 0;
        CUevent used = nullptr;
    };

    const Driver& driver_;
    const Device& device_;
    CUstream stream_;
    unsigned processors_;
    Handle<CUmodule> module_;  // of the kernels
    Handle<void*> host_tables_;
    Handle<CUdeviceptr> device_tables_;
    std::map<std::string_view, CUfunction> kernels_;
    std::array<Table, kTables> tables_{};
    std::size_t next_ = 0;
    Table* loaded_ = nullptr;
};

}  // namespace hvd::coll::cuda
