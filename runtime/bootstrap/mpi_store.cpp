// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/mpi_store.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace hvd::rt {
namespace {

/// Rank 0's bytes, of which all ranks know how many they are.
Result<std::vector<std::byte>> carry(coll::mpi::Communicator& all,
                                     std::vector<std::byte> bytes,
                                     Deadline deadline) {
    auto carried = std::make_unique<std::vector<std::byte>>(std::move(bytes));
    HVD_TRY_STATUS(all.broadcast(*carried, 0));
    if (auto arrived = all.wait(deadline, "MPI_Ibcast of rank 0's address"); !arrived) {
        (void)carried.release();  // MPI may write it whenever it likes
        return std::move(arrived).error();
    }
    return std::move(*carried);
}

/// Rank 0's text, on all ranks, after its length: a host may have any number of addresses.
Result<std::string> carry_text(coll::mpi::Communicator& all,
                               const std::string& text,
                               Deadline deadline) {
    std::uint64_t size = text.size();
    const auto size_bytes = std::as_writable_bytes(std::span(&size, 1));
    HVD_TRY(const auto told, carry(all, {size_bytes.begin(), size_bytes.end()}, deadline));
    std::ranges::copy(told, size_bytes.begin());
    const auto own = std::as_bytes(std::span(text));
    std::vector<std::byte> bytes(own.begin(), own.end());
    bytes.resize(size);
    HVD_TRY(bytes, carry(all, std::move(bytes), deadline));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

Status MpiKeyValueStore::put(const std::string& /*key*/,
                             const std::string& text,
                             Deadline deadline) {
    auto carried = carry_text(all_, text, deadline);
    return carried ? ok() : Status(std::move(carried).error());
}

Result<std::string> MpiKeyValueStore::get(const std::string& /*key*/, Deadline deadline) {
    return carry_text(all_, {}, deadline);
}

KeyValueStore* LauncherMpi::use(MpiWorld mpi) {
    mpi_.emplace(std::move(mpi));
    store_.emplace(mpi_->communicator);
    return &*store_;
}

Result<KeyValueStore*> LauncherMpi::if_started(const coll::ExternalLaunch& launch,
                                               Deadline deadline) {
    HVD_TRY(auto mpi, find_started_mpi(environment_, launch, deadline));
    return mpi ? use(std::move(*mpi)) : nullptr;
}

Result<KeyValueStore*> LauncherMpi::start(const coll::ExternalLaunch& launch, Deadline deadline) {
    WorldPlace place;
    place.source = describe(launch.launcher);
    place.topology.rank = launch.rank;
    place.topology.size = launch.size;
    HVD_TRY(auto mpi, join_mpi(place, config_, environment_, deadline));
    return use(std::move(mpi));
}

}  // namespace hvd::rt
