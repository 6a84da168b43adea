// SPDX-License-Identifier: Apache-2.0
//
// The variable of every process that mpirun starts for a job of horovodrun: the job, and how many
// ranks were planned on which host. Launcher and shim meet in this file.
#pragma once

#include "collectives/base/result.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::coll {

inline constexpr std::string_view kEnvMpiJob = "HOROVOD_MPI_JOB";

struct MpiJob {
    struct HostRanks {
        std::string host;
        int ranks = 0;
        friend bool operator==(const HostRanks&, const HostRanks&) = default;
    };

    std::string job_id;
    std::vector<HostRanks> hosts;  // in the order of their ranks

    [[nodiscard]] int size() const noexcept;

    /// The host on which the rank was planned. `rank` is less than `size()`.
    [[nodiscard]] std::size_t host_of(int rank) const noexcept;

    friend bool operator==(const MpiJob&, const MpiJob&) = default;
};

/// "JOB-ID;node1:4;node2:4".
[[nodiscard]] std::string encode(const MpiJob& job);

/// Errors: invalid_argument, with the text.
[[nodiscard]] Result<MpiJob> decode_mpi_job(std::string_view text);

/// The abstract Unix socket at which the agent of a host waits for shims.
[[nodiscard]] std::string shim_socket(std::string_view job_id, std::size_t host);

}  // namespace hvd::coll
