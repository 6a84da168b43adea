// SPDX-License-Identifier: Apache-2.0
#include "collectives/launch_contract/launch_env.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace hvd::coll {
namespace {

constexpr std::array kNames{kEnvRank,      kEnvSize,      kEnvLocalRank,
                            kEnvLocalSize, kEnvCrossRank, kEnvCrossSize,
                            kEnvHostname,  kEnvJobId,     kEnvAgentSocket};

constexpr std::string_view kOnFailureWait = "wait";

constexpr std::size_t kJobIdDigits = 32;
constexpr std::size_t kMaxAbstractName = 107;  // sockaddr_un without the leading NUL

/// Collects every complaint, so that a user sees all of them at once.
class Decoder {
public:
    explicit Decoder(const Environment& environment) : environment_(environment) {}

    [[nodiscard]] std::string text(std::string_view name) {
        const auto value = find(environment_, name);
        if (!value || value->empty()) {
            complain(std::string(name) + (value ? " is empty" : " is not set"));
            return {};
        }
        return *value;
    }

    [[nodiscard]] int number(std::string_view name, int least) {
        const auto value = text(name);
        if (value.empty()) {
            return least;
        }
        const auto parsed = parse_number<int>(value);
        if (!parsed || *parsed < least) {
            complain(std::string(name) + " is not a whole number of at least " +
                     std::to_string(least));
            return least;
        }
        return *parsed;
    }

    void require(bool holds, std::string_view complaint) {
        if (!holds) {
            complain(std::string(complaint));
        }
    }

    [[nodiscard]] bool has_failed() const noexcept { return !complaints_.empty(); }

    [[nodiscard]] Error error() const {
        std::vector<std::string> values;
        for (const auto name : kNames) {
            const auto value = find(environment_, name);
            values.push_back(std::string(name) + (value ? "=" + *value : " unset"));
        }
        return Error{Errc::invalid_argument,
                     "the launcher's variables do not describe a rank: " + join(complaints_, "; ") +
                         " (" + join(values, ", ") +
                         "); start the program with horovodrun, or unset these variables to run "
                         "it alone"};
    }

private:
    void complain(std::string complaint) { complaints_.push_back(std::move(complaint)); }

    const Environment& environment_;
    std::vector<std::string> complaints_;
};

/// `part` of `whole`: 0 <= part < whole. Only for numbers that were read without a complaint.
void require_rank_below_size(Decoder& decoder,
                             int part,
                             int whole,
                             std::string_view part_name,
                             std::string_view whole_name) {
    decoder.require(part < whole,
                    std::string(part_name) + " must be less than " + std::string(whole_name));
}

[[nodiscard]] bool is_hexadecimal(std::string_view text) noexcept {
    return text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

}  // namespace

bool is_of_contract(std::string_view name) noexcept {
    return name == kEnvLauncherVariables || std::ranges::find(kNames, name) != kNames.end();
}

Environment encode(const LaunchContract& contract) {
    auto variables = encode_for_rank(contract.topology);
    variables.merge(encode_for_host(contract));
    variables.merge(encode_for_job(contract));
    return variables;
}

Environment encode_for_job(const LaunchContract& contract) {
    Environment variables{{std::string(kEnvSize), std::to_string(contract.topology.size)},
                          {std::string(kEnvJobId), contract.job_id}};
    if (contract.lease != kDefaultLease) {
        variables.emplace(kEnvLease, std::to_string(contract.lease.count()));
    }
    if (contract.may_shrink) {
        variables.emplace(kEnvOnFailure, kOnFailureWait);
    }
    return variables;
}

Environment encode_for_host(const LaunchContract& contract) {
    return {{std::string(kEnvLocalSize), std::to_string(contract.topology.local_size)},
            {std::string(kEnvHostname), contract.hostname},
            {std::string(kEnvAgentSocket), contract.agent_socket}};
}

Environment encode_for_rank(const Topology& topology) {
    Environment variables;
    const auto set = [&](std::string_view name, int value) {
        variables.emplace(name, std::to_string(value));
    };
    set(kEnvRank, topology.rank);
    set(kEnvLocalRank, topology.local_rank);
    set(kEnvCrossRank, topology.cross_rank);
    set(kEnvCrossSize, topology.cross_size);
    return variables;
}

bool has_launch_contract(const Environment& environment) {
    const auto has = [&](std::string_view name) {
        return environment.find(name) != environment.end();
    };
    return has(kEnvAgentSocket) || (has(kEnvRank) && !has(kEnvTaskOf));
}

Result<LaunchContract> decode_launch_contract(const Environment& environment) {
    Decoder decoder(environment);
    LaunchContract contract;
    auto& topology = contract.topology;
    topology.rank = decoder.number(kEnvRank, 0);
    topology.size = decoder.number(kEnvSize, 1);
    topology.local_rank = decoder.number(kEnvLocalRank, 0);
    topology.local_size = decoder.number(kEnvLocalSize, 1);
    topology.cross_rank = decoder.number(kEnvCrossRank, 0);
    topology.cross_size = decoder.number(kEnvCrossSize, 1);
    contract.hostname = decoder.text(kEnvHostname);
    contract.job_id = decoder.text(kEnvJobId);
    contract.agent_socket = decoder.text(kEnvAgentSocket);
    if (find(environment, kEnvLease)) {
        contract.lease = std::chrono::seconds(decoder.number(kEnvLease, 0));
    }
    contract.may_shrink = find(environment, kEnvOnFailure) == kOnFailureWait;
    if (decoder.has_failed()) {
        return decoder.error();
    }

    require_rank_below_size(decoder, topology.rank, topology.size, kEnvRank, kEnvSize);
    require_rank_below_size(decoder, topology.local_rank, topology.local_size, kEnvLocalRank,
                            kEnvLocalSize);
    require_rank_below_size(decoder, topology.cross_rank, topology.cross_size, kEnvCrossRank,
                            kEnvCrossSize);
    decoder.require(topology.local_size <= topology.size,
                    "HOROVOD_LOCAL_SIZE must not exceed HOROVOD_SIZE");
    decoder.require(topology.cross_size <= topology.size,
                    "HOROVOD_CROSS_SIZE must not exceed HOROVOD_SIZE");
    decoder.require(contract.job_id.size() == kJobIdDigits && is_hexadecimal(contract.job_id),
                    "HOROVOD_JOB_ID must be 32 hexadecimal digits");
    decoder.require(contract.agent_socket.size() <= kMaxAbstractName,
                    "HOROVOD_AGENT_SOCKET must not be longer than 107 bytes");
    if (decoder.has_failed()) {
        return decoder.error();
    }
    return contract;
}

}  // namespace hvd::coll
