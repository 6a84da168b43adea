// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/mpi_board.hpp"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace hvd::rt {
namespace {

constexpr std::size_t kPacketBytes = 4096;  // more than an address list needs; ends with zeros

/// Rank 0's packet, on all ranks.
Result<std::vector<std::byte>> carry(coll::mpi::Communicator& all,
                                     std::vector<std::byte> packet,
                                     Deadline deadline) {
    auto carried = std::make_unique<std::vector<std::byte>>(std::move(packet));
    carried->resize(kPacketBytes);
    HVD_TRY_STATUS(all.broadcast(*carried, 0));
    if (auto arrived = all.wait(deadline, "MPI_Ibcast of rank 0's address"); !arrived) {
        (void)carried.release();  // MPI may write it whenever it likes
        return std::move(arrived).error();
    }
    return std::move(*carried);
}

}  // namespace

Status MpiBoard::post(const std::string& /*key*/, const std::string& text, Deadline deadline) {
    if (text.size() >= kPacketBytes) {
        return Error{Errc::internal, "the text for MPI's board is too long"};
    }
    const auto bytes = std::as_bytes(std::span(text));
    auto carried = carry(all_, {bytes.begin(), bytes.end()}, deadline);
    return carried ? ok() : Status(std::move(carried).error());
}

Result<std::string> MpiBoard::read(const std::string& /*key*/, Deadline deadline) {
    HVD_TRY(const auto packet, carry(all_, {}, deadline));
    const std::string text(reinterpret_cast<const char*>(packet.data()), packet.size());
    return text.substr(0, text.find('\0'));
}

Board* LauncherMpi::use(MpiWorld mpi) {
    mpi_.emplace(std::move(mpi));
    board_.emplace(mpi_->communicator);
    return &*board_;
}

Result<Board*> LauncherMpi::if_started(const ForeignLaunch& launch, Deadline deadline) {
    HVD_TRY(auto mpi, find_started_mpi(environment_, launch, deadline));
    return mpi ? use(std::move(*mpi)) : nullptr;
}

Result<Board*> LauncherMpi::start(const ForeignLaunch& launch, Deadline deadline) {
    WorldPlace place;
    place.source = describe(launch.launcher);
    place.topology.rank = launch.rank;
    place.topology.size = launch.size;
    HVD_TRY(auto mpi, join_mpi(place, config_, environment_, deadline));
    return use(std::move(mpi));
}

}  // namespace hvd::rt
