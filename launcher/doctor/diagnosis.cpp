// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/diagnosis.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>

namespace hvd::launch {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormatVersion = 1;
constexpr double kGiga = 1e9;
constexpr double kMicro = 1e-6;
constexpr double kNano = 1e-9;
constexpr double kGiB = 1 << 30;

std::string number(const char* format, double value) {
    std::array<char, 64> text{};
    (void)std::snprintf(text.data(), text.size(), format, value);
    return text.data();
}

std::string count(std::size_t value, const char* one) {
    return std::to_string(value) + " " + one + (value == 1 ? "" : "s");
}

/// "0.4 ms", "2.1 s".
std::string span(double seconds) {
    return std::abs(seconds) < 1 ? number("%.1f ms", seconds * 1e3) : number("%.1f s", seconds);
}

std::string name_of(const GpuDriver& driver) {
    const auto known = [](const std::string& text) { return text.empty() ? "unknown" : text; };
    return known(driver.version) + " (CUDA " + known(driver.cuda) + ")";
}

std::string name_of(const NcclFile& nccl) {
    return nccl.file.empty() ? "no NCCL" : "NCCL " + nccl.version + " (" + nccl.file + ")";
}

/// Of two versions that are known: an agent without hvd-gpu-probe knows no version of CUDA.
bool differ(const std::string& one, const std::string& other) {
    return !one.empty() && !other.empty() && one != other;
}

std::string describe(const ClockReading& clock) {
    return "clock " + span(std::abs(clock.ahead_seconds)) +
           (clock.ahead_seconds < 0 ? " behind" : " ahead") + " (to " + span(clock.error_seconds) +
           ")";
}

/// "8 GPUs", "7 MIG devices of 1 GPU", "1 GPU and 7 MIG devices of 1 GPU".
std::string count_gpus(const std::vector<Gpu>& gpus) {
    std::set<int> divided;
    for (const auto& gpu : gpus) {
        if (is_mig(gpu)) {
            divided.insert(gpu.index);
        }
    }
    const auto devices = static_cast<std::size_t>(std::ranges::count_if(gpus, is_mig));
    const auto whole = gpus.size() - devices;
    if (devices == 0) {
        return count(whole, "GPU");
    }
    return (whole == 0 ? "" : count(whole, "GPU") + " and ") + count(devices, "MIG device") +
           " of " + count(divided.size(), "GPU");
}

/// "8 GPUs (driver 580.65.06, CUDA 13.0, NCCL 2.27.3, NVLink)", as far as it is known.
std::string describe_gpus(const HostHealth& host) {
    const auto& facts = *host.facts;
    const auto& driver = facts.gpu_driver;
    std::vector<std::string> parts;
    if (!driver.version.empty()) {
        parts.push_back("driver " + driver.version);
    }
    if (!driver.cuda.empty()) {
        parts.push_back("CUDA " + driver.cuda);
    }
    if (!facts.gpus.empty() && host.nccl && !host.nccl->version.empty()) {
        parts.push_back("NCCL " + host.nccl->version);
    }
    if (!driver.link.empty()) {
        parts.push_back(driver.link + " between them");
    }
    const auto gpus = count_gpus(facts.gpus);
    return parts.empty() ? gpus : gpus + " (" + join(parts, ", ") + ")";
}

std::string describe(const HostHealth& host) {
    if (!host.same_as.empty()) {
        return "the same machine as " + host.same_as;
    }
    if (!host.facts) {
        return "";
    }
    auto text = count(host.facts->cpus.size(), "CPU") + ", " + describe_gpus(host) + ", " +
                number("%.1f GiB", static_cast<double>(host.facts->memory_bytes) / kGiB) +
                ", agent up in " + span(host.seconds_to_link);
    return host.clock ? text + ", " + describe(*host.clock) : text;
}

std::string print(const HostHealth& host) {
    const auto details = describe(host);
    std::string text = std::string(host.is_well() ? "PASS  " : "FAIL  ") + host.host +
                       (details.empty() ? "" : "  " + details) + "\n";
    for (const auto& problem : host.problems) {
        text += "      " + host.host + ": " + problem + "\n";
    }
    for (const auto& warning : host.warnings) {
        text += "      " + host.host + ": warning: " + warning + "\n";
    }
    return text;
}

std::string print(const LinkHealth& link) {
    const auto ends = link.from + " - " + link.to + "  ";
    if (!link.problem.empty()) {
        return "FAIL  " + ends + link.problem + "\n";
    }
    return "PASS  " + ends +
           number("round trip %.0f us, ",
                  static_cast<double>(link.round_trip_ns) * kNano / kMicro) +
           number("%.2f GB/s", static_cast<double>(link.bytes_per_second) / kGiga) + "  at " +
           link.address + "\n";
}

Json text_or_null(const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
}

Json to_json(const GpuDriver& driver) {
    return {{"version", text_or_null(driver.version)},
            {"cuda", text_or_null(driver.cuda)},
            {"link", text_or_null(driver.link)}};
}

Json to_json(const HostHealth& host) {
    Json json{{"host", host.host},
              {"ok", host.is_well()},
              {"same_as", host.same_as.empty() ? Json(nullptr) : Json(host.same_as)},
              {"seconds_to_link", host.facts ? Json(host.seconds_to_link) : Json(nullptr)},
              {"clock", nullptr},
              {"facts", nullptr},
              {"nccl", nullptr},
              {"problems", host.problems},
              {"warnings", host.warnings}};
    if (host.clock) {
        json["clock"] = {{"ahead_seconds", host.clock->ahead_seconds},
                         {"error_seconds", host.clock->error_seconds}};
    }
    if (host.nccl && !host.nccl->file.empty()) {
        json["nccl"] = {{"version", text_or_null(host.nccl->version)}, {"file", host.nccl->file}};
    }
    if (host.facts) {
        auto gpus = Json::array();
        for (const auto& gpu : host.facts->gpus) {
            gpus.push_back({{"index", gpu.index},
                            {"uuid", gpu.uuid},
                            {"parent", text_or_null(gpu.parent)},
                            {"name", gpu.name}});
        }
        json["facts"] = {
            {"hostname", host.facts->hostname}, {"machine", host.facts->machine},
            {"cpus", host.facts->cpus},         {"memory_bytes", host.facts->memory_bytes},
            {"gpus", std::move(gpus)},          {"gpu_driver", to_json(host.facts->gpu_driver)}};
    }
    return json;
}

Json to_json(const LinkHealth& link) {
    const bool is_well = link.problem.empty();
    const auto seconds = static_cast<double>(link.round_trip_ns) * kNano;
    return {{"from", link.from},
            {"to", link.to},
            {"ok", is_well},
            {"address", link.address.empty() ? Json(nullptr) : Json(link.address)},
            {"round_trip_seconds", is_well ? Json(seconds) : Json(nullptr)},
            {"bytes_per_second", is_well ? Json(link.bytes_per_second) : Json(nullptr)},
            {"problem", is_well ? Json(nullptr) : Json(link.problem)}};
}

}  // namespace

void compare_gpu_drivers(std::vector<HostHealth>& hosts) {
    const HostHealth* first = nullptr;
    for (auto& host : hosts) {
        if (!host.facts || host.facts->gpus.empty() || !host.same_as.empty()) {
            continue;
        }
        if (first == nullptr) {
            first = &host;
            continue;
        }
        const auto& own = host.facts->gpu_driver;
        const auto& other = first->facts->gpu_driver;
        if (differ(own.version, other.version) || differ(own.cuda, other.cuda)) {
            host.warnings.push_back("its GPU driver is " + name_of(own) + ", and that of " +
                                    first->host + " " + name_of(other) +
                                    "; NCCL and CUDA programs have to run on the older one: "
                                    "install the same everywhere");
        }
    }
}

void compare_nccl(std::vector<HostHealth>& hosts) {
    const HostHealth* first = nullptr;
    for (auto& host : hosts) {
        if (!host.facts || host.facts->gpus.empty() || !host.same_as.empty() || !host.nccl ||
            (!host.nccl->file.empty() && host.nccl->version.empty())) {
            continue;
        }
        if (first == nullptr) {
            first = &host;
            continue;
        }
        if (host.nccl->version != first->nccl->version) {
            host.warnings.push_back("its ranks would load " + name_of(*host.nccl) +
                                    ", and those of " + first->host + " " + name_of(*first->nccl) +
                                    "; ranks with different ones stop at the first tensor on a "
                                    "GPU: install the same everywhere");
        }
    }
}

bool Diagnosis::is_well() const noexcept {
    return !plan_problem && std::ranges::all_of(hosts, &HostHealth::is_well) &&
           std::ranges::all_of(links, [](const auto& link) { return link.problem.empty(); });
}

std::string with_remedy(const std::string& host, const std::string& words) {
    struct Remedy {
        std::string_view sign;
        std::string_view text;
    };
    static constexpr std::array kRemedies{
        Remedy{"resolving", "look at its spelling, at /etc/hosts and at the name server"},
        Remedy{"onnection refused", "start sshd there, or give its port with -p"},
        Remedy{"No route to host", "look at its network, and whether it is up"},
        Remedy{"no answer within", "look whether it is up, and whether a firewall drops SSH"},
    };
    if (words.find("; ") != std::string::npos) {
        return words;  // it has one
    }
    for (const auto& remedy : kRemedies) {
        if (words.find(remedy.sign) != std::string::npos) {
            return words + "; " + std::string(remedy.text);
        }
    }
    return words + "; see what `ssh " + host + " true` says";
}

std::string print_text(const Diagnosis& diagnosis) {
    std::string text;
    for (const auto& host : diagnosis.hosts) {
        text += print(host);
    }
    if (diagnosis.plan_problem) {
        text += "FAIL  plan  " + *diagnosis.plan_problem + "\n";
    }
    for (const auto& warning : diagnosis.plan_warnings) {
        text += "      plan: warning: " + warning + "\n";
    }
    if (!diagnosis.links.empty()) {
        text += std::to_string(diagnosis.links.size()) + " of " +
                count(diagnosis.possible_links, "pair") + " of hosts, median round trip and " +
                "what arrives each second:\n";
    }
    for (const auto& link : diagnosis.links) {
        text += print(link);
    }
    return text;
}

std::string print_json(const Diagnosis& diagnosis) {
    Json document{{"version", kFormatVersion},
                  {"ok", diagnosis.is_well()},
                  {"hosts", Json::array()},
                  {"plan",
                   {{"problem", diagnosis.plan_problem ? Json(*diagnosis.plan_problem) : nullptr},
                    {"warnings", diagnosis.plan_warnings}}},
                  {"possible_links", diagnosis.possible_links},
                  {"links", Json::array()}};
    for (const auto& host : diagnosis.hosts) {
        document["hosts"].push_back(to_json(host));
    }
    for (const auto& link : diagnosis.links) {
        document["links"].push_back(to_json(link));
    }
    return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hvd::launch
