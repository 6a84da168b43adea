// SPDX-License-Identifier: Apache-2.0
#include "collectives/launch_contract/mpi_job.hpp"

#include "collectives/base/text.hpp"

namespace hvd::coll {

int MpiJob::size() const noexcept {
    int size = 0;
    for (const auto& host : hosts) {
        size += host.ranks;
    }
    return size;
}

std::size_t MpiJob::host_of(int rank) const noexcept {
    std::size_t index = 0;
    while (index < hosts.size() && rank >= hosts[index].ranks) {
        rank -= hosts[index++].ranks;
    }
    return index;
}

std::string encode(const MpiJob& job) {
    std::string text = job.job_id;
    for (const auto& [host, ranks] : job.hosts) {
        text += ";" + host + ":" + std::to_string(ranks);
    }
    return text;
}

Result<MpiJob> decode_mpi_job(std::string_view text) {
    const auto wrong = [&] {
        return Error{Errc::invalid_argument, std::string(kEnvMpiJob) + "='" + std::string(text) +
                                                 "' is not JOB;HOST:RANKS;..., as horovodrun "
                                                 "--mpi sets it; unset it"};
    };
    const auto parts = split(text, ';');
    MpiJob job{.job_id = std::string(parts.front()), .hosts = {}};
    for (std::size_t index = 1; index < parts.size(); ++index) {
        const auto part = parts[index];
        const auto colon = part.rfind(':');  // an IPv6 address has more of them
        if (colon == std::string_view::npos || colon == 0) {
            return wrong();
        }
        const auto ranks = parse_number<int>(part.substr(colon + 1));
        if (!ranks || *ranks < 0) {
            return wrong();
        }
        job.hosts.push_back({.host = std::string(part.substr(0, colon)), .ranks = *ranks});
    }
    if (job.job_id.empty() || job.size() == 0) {
        return wrong();
    }
    return job;
}

std::string shim_socket(std::string_view job_id, std::size_t host) {
    return "horovod-" + std::string(job_id) + "-" + std::to_string(host) + "-shim";
}

}  // namespace hvd::coll
