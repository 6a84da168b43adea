// SPDX-License-Identifier: Apache-2.0
//
// Parts of launches of several kinds.
#pragma once

#include "collectives/cuda/gpu.hpp"
#include "collectives/nccl/check.hpp"
#include "collectives/nccl/connection.hpp"
#include "collectives/nccl/reduction.hpp"

#include <cstddef>
#include <vector>

namespace hvd::coll::nccl {

/// NCCL's calls of one task as a group. What fails inside ends it, so that the thread is in no
/// group any more.
template <class Calls>
void in_group(Connection& connection, const Calls& calls) {
    const auto& library = connection.library();
    check(library, library.ncclGroupStart(), "ncclGroupStart");
    try {
        calls();
    } catch (...) {
        (void)library.ncclGroupEnd();
        throw;
    }
    connection.note(library.ncclGroupEnd(), "ncclGroupEnd");
}

/// Packs tensors into `fused`, or unpacks them. Entries are in elements of the buffer; those of
/// none are left out.
inline void run_packer(cuda::Gpu& gpu,
                       const cuda::PackChange& change,
                       bool is_pack,
                       std::vector<cuda::PackEntry> entries,
                       std::byte* fused) {
    const auto unit = cuda::is_copy(change) ? size_of(change.from) : std::size_t{1};
    std::erase_if(entries, [](const cuda::PackEntry& entry) { return entry.count == 0; });
    for (auto& entry : entries) {
        entry.offset *= unit;
        entry.count *= unit;
    }
    if (!entries.empty()) {
        gpu.packer().run(change, is_pack, entries, fused);
    }
}

}  // namespace hvd::coll::nccl
