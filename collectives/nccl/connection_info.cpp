// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/connection_info.hpp"

#include "collectives/nccl/host_split.hpp"
#include "collectives/nccl/library.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace hvd::coll::nccl {
namespace {

static_assert(std::is_trivially_copyable_v<ConnectionInfo>);

std::string gpu_name(const cuda::GpuUuid& uuid) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text = "GPU";
    for (std::size_t index = 0; index < uuid.size(); ++index) {
        if (index == 0 || index == 4 || index == 6 || index == 8 || index == 10) {
            text += '-';
        }
        const auto value = std::to_integer<unsigned>(uuid.at(index));
        text += kDigits[value >> 4U];
        text += kDigits[value & 15U];
    }
    return text;
}

Status compare_two(const ConnectionInfo& one,
                   int rank,
                   const ConnectionInfo& other,
                   int other_rank) {
    if (one.nccl_version != other.nccl_version) {
        return Error{Errc::mismatch, "rank " + std::to_string(rank) + " has NCCL " +
                                         version_text(one.nccl_version) + ", rank " +
                                         std::to_string(other_rank) + " has NCCL " +
                                         version_text(other.nccl_version) +
                                         ": install the same version everywhere"};
    }
    if (one.gpu == other.gpu) {
        return Error{Errc::invalid_argument,
                     "ranks " + std::to_string(rank) + " and " + std::to_string(other_rank) +
                         " both have tensors on " + gpu_name(one.gpu) +
                         ": call torch.cuda.set_device(hvd.local_rank()) before the first one; to "
                         "share a GPU on purpose use horovodrun --share-gpus, or "
                         "HOROVOD_GPU_OPERATIONS=host"};
    }
    return ok();
}

/// The member at `place` with those before it.
Status compare_with_earlier(std::span<const ConnectionInfo> members,
                            int place,
                            const ProcessSet& set) {
    const auto& own = members[static_cast<std::size_t>(place)];
    for (int earlier = 0; earlier < place; ++earlier) {
        auto compared = compare_two(members[static_cast<std::size_t>(earlier)],
                                    set.rank_at(earlier), own, set.rank_at(place));
        if (!compared) {
            return compared;
        }
    }
    return ok();
}

}  // namespace

std::vector<std::byte> encode(const ConnectionInfo& info) {
    std::vector<std::byte> bytes(sizeof info);
    std::memcpy(bytes.data(), &info, bytes.size());
    return bytes;
}

Result<Agreed> compare(std::span<const std::byte> all, const ProcessSet& set) {
    std::vector<ConnectionInfo> members(static_cast<std::size_t>(set.size()));
    if (all.size() != members.size() * sizeof(ConnectionInfo)) {
        return Error{Errc::internal, "connection data of a wrong size"};
    }
    std::memcpy(members.data(), all.data(), all.size());
    for (int place = 1; place < set.size(); ++place) {
        HVD_TRY_STATUS(compare_with_earlier(members, place, set));
    }
    const bool all_register = std::ranges::all_of(
        members, [](const ConnectionInfo& member) { return member.registers != 0; });
    return Agreed{.id = members.front().id, .registers = all_register};
}

Result<Agreed> compare_by_host(std::span<const std::byte> all, const ProcessSet& set) {
    if (all.size() != static_cast<std::size_t>(set.size()) * sizeof(ConnectionInfo)) {
        return Error{Errc::internal, "connection data of a wrong size"};
    }
    Agreed own;
    for (const auto& places : places_by_host(set.hosts)) {
        std::vector<std::byte> infos;
        for (const int place : places) {
            const auto info = all.subspan(static_cast<std::size_t>(place) * sizeof(ConnectionInfo),
                                          sizeof(ConnectionInfo));
            infos.insert(infos.end(), info.begin(), info.end());
        }
        const auto members = members_at(set, places);
        HVD_TRY(const auto agreed, compare(infos, members));
        if (members.is_member()) {
            own = agreed;
        }
    }
    return own;
}

}  // namespace hvd::coll::nccl
