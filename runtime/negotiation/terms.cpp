// SPDX-License-Identifier: Apache-2.0
#include "runtime/negotiation/terms.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

namespace hvd::rt {
namespace {

constexpr std::int32_t kNoGpu = -1;

}  // namespace

std::vector<std::vector<std::int64_t>> first_dims_of(const AnnouncedGroup& group) {
    const auto& members = group.announcements.front().members;
    std::vector<std::vector<std::int64_t>> dims(members.size());
    for (std::size_t index = 0; index < members.size(); ++index) {
        if (!has_open_size(members[index].signature)) {
            continue;
        }
        for (const auto& announcement : group.announcements) {
            const auto& signature = announcement.members[index].signature;
            if (signature.op == coll::Op::allgather) {
                dims[index].push_back(signature.shape.front());
            } else {
                dims[index].insert(dims[index].end(), signature.splits.begin(),
                                   signature.splits.end());
            }
        }
    }
    return dims;
}

std::vector<DeviceList> devices_of(const AnnouncedGroup& group,
                                   std::span<const int> ranks,
                                   const std::map<int, std::int32_t>& joined_gpus) {
    const auto& members = group.announcements.front().members;
    std::vector<DeviceList> devices;
    if (std::ranges::all_of(
            members, [](const Member& member) { return member.signature.device.is_host(); })) {
        return devices;
    }
    devices.resize(members.size());
    for (std::size_t index = 0; index < members.size(); ++index) {
        if (members[index].signature.device.is_host()) {
            continue;
        }
        for (const int rank : ranks) {
            const auto at = std::ranges::lower_bound(group.ranks, rank);
            const auto joined = joined_gpus.find(rank);
            if (at != group.ranks.end() && *at == rank) {
                const auto place = static_cast<std::size_t>(at - group.ranks.begin());
                devices[index].push_back(
                    group.announcements[place].members[index].signature.device.index);
            } else {
                devices[index].push_back(joined != joined_gpus.end() ? joined->second : kNoGpu);
            }
        }
    }
    return devices;
}

std::optional<Error> refusal_without_gpu(const Decision& decision, std::span<const int> ranks) {
    for (std::size_t index = 0; index < decision.devices.size(); ++index) {
        const auto& devices = decision.devices[index];
        const auto at = std::ranges::find(devices, kNoGpu);
        if (at != devices.end()) {
            const int rank = ranks[static_cast<std::size_t>(at - devices.begin())];
            return Error{Errc::mismatch,
                         "tensor '" + decision.members[index].name + "' is on a GPU, but rank " +
                             std::to_string(rank) +
                             " has joined without one: name its GPU, hvd.join(device)"};
        }
    }
    return std::nullopt;
}

}  // namespace hvd::rt
