// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/bootstrap/agent_image.hpp"

#include "collectives/base/file.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include <elf.h>

namespace hvd::launch {
namespace {

constexpr std::size_t kMaxAgentBytes = std::size_t{64} << 20;

/// Not for security, since the folder is the user's own: to tell two builds apart, in a fraction of
/// a millisecond. Four sums, so that none waits for the product before it.
std::uint64_t hash(std::string_view bytes) {
    constexpr std::uint64_t kPrime = 0x100000001b3;
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    std::array<std::uint64_t, 4> sums{0xcbf29ce484222325, 1, 2, 3};
    const auto mix = [](std::uint64_t& sum, std::uint64_t word) {
        sum = (sum ^ word) * kPrime;
        sum ^= sum >> 32U;
    };
    std::size_t at = 0;
    for (; at + kWord * sums.size() <= bytes.size(); at += kWord * sums.size()) {
        std::array<std::uint64_t, 4> words{};
        std::memcpy(words.data(), bytes.data() + at, sizeof words);
        for (std::size_t lane = 0; lane < sums.size(); ++lane) {
            mix(sums[lane], words[lane]);
        }
    }
    for (; at < bytes.size(); ++at) {
        mix(sums[0], static_cast<unsigned char>(bytes[at]));
    }
    for (std::size_t lane = 1; lane < sums.size(); ++lane) {
        mix(sums[0], sums[lane]);
    }
    return sums[0];
}

std::optional<std::string> machine_of(std::string_view file) {
    Elf64_Ehdr header{};
    if (file.size() < sizeof header) {
        return std::nullopt;
    }
    std::memcpy(&header, file.data(), sizeof header);
    if (std::string_view(file).substr(0, SELFMAG) != ELFMAG || file[EI_CLASS] != char{ELFCLASS64}) {
        return std::nullopt;
    }
    switch (header.e_machine) {
        case EM_X86_64: return "x86_64";
        case EM_AARCH64: return "aarch64";
        default: return std::nullopt;
    }
}

}  // namespace

Result<AgentImage> load_agent_image(const std::string& path, std::string_view build_id) {
    HVD_TRY(auto file, read_file(path, kMaxAgentBytes));
    auto machine = machine_of(file);
    if (!machine) {
        return Error{Errc::invalid_argument,
                     path + ": no 64-bit program for x86_64 or aarch64, so it cannot be the agent"};
    }
    std::string digits(2 * sizeof(std::uint64_t) + 1, '\0');
    (void)std::snprintf(digits.data(), digits.size(), "%016llx",
                        static_cast<unsigned long long>(hash(file)));
    digits.pop_back();
    return AgentImage{.file = std::move(file),
                      .build_id = std::string(build_id),
                      .cache_key = std::string(build_id) + "-" + digits,
                      .machine = *std::move(machine)};
}

}  // namespace hvd::launch
