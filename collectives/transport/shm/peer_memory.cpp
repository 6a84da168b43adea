// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm/peer_memory.hpp"

#include "collectives/base/error.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>
#include <vector>

#include <sys/uio.h>

namespace hvd::coll {
namespace {

std::size_t total_of(std::span<const iovec> pieces) noexcept {
    std::size_t total = 0;
    for (const auto& piece : pieces) {
        total += piece.iov_len;
    }
    return total;
}

/// Drops the first `bytes`.
void advance(std::vector<iovec>& pieces, std::size_t bytes) {
    auto piece = pieces.begin();
    while (piece != pieces.end() && bytes >= piece->iov_len) {
        bytes -= piece->iov_len;
        ++piece;
    }
    pieces.erase(pieces.begin(), piece);
    if (!pieces.empty()) {
        pieces.front().iov_base = static_cast<std::byte*>(pieces.front().iov_base) + bytes;
        pieces.front().iov_len -= bytes;
    }
}

/// An address that means something in the other process only.
void* as_pointer(std::uint64_t address) noexcept {
    return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

Result<bool> read_process(const RemoteProcess& process,
                          std::span<const RemotePiece> pieces,
                          std::span<const std::span<std::byte>> to) {
    // One system call reads from one process: each takes the number along.
    std::uint64_t number = 0;
    const iovec number_here{&number, sizeof number};
    const iovec number_there{as_pointer(process.address), sizeof number};
    std::vector<iovec> remote{number_there};
    std::vector<iovec> local{number_here};
    for (const auto& piece : pieces) {
        remote.push_back({as_pointer(piece.address), piece.bytes});
    }
    for (const auto& part : to) {
        local.push_back({part.data(), part.size()});
    }
    const auto pid = static_cast<pid_t>(process.pid);
    while (true) {
        constexpr std::size_t kMost = IOV_MAX;
        const auto count = ::process_vm_readv(pid, local.data(), std::min(local.size(), kMost),
                                              remote.data(), std::min(remote.size(), kMost), 0);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0 && errno != ESRCH && errno != EFAULT) {
            return system_error("cannot read the memory of process " + std::to_string(pid), errno);
        }
        if (count < static_cast<ssize_t>(sizeof number) || number != process.number) {
            return false;
        }
        const auto bytes = static_cast<std::size_t>(count);
        if (bytes == total_of(local)) {
            return true;
        }
        if (bytes == sizeof number) {
            return system_error("cannot read the memory of process " + std::to_string(pid), EFAULT);
        }
        advance(local, bytes);
        advance(remote, bytes);
        local.insert(local.begin(), number_here);
        remote.insert(remote.begin(), number_there);
    }
}

}  // namespace hvd::coll
