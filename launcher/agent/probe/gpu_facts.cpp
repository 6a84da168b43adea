// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/probe/gpu_facts.hpp"

#include "collectives/base/command_path.hpp"
#include "collectives/base/env.hpp"
#include "collectives/base/text.hpp"
#include "launcher/agent/probe/driver_files.hpp"
#include "launcher/agent/probe/tool.hpp"

#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr auto kToolLimit = std::chrono::seconds(5);
constexpr const char* kLibraryVariable = "HOROVOD_NVML_LIBRARY";

/// Whether nobody else than we or root can have put it there.
bool is_ours(const std::filesystem::path& file) {
    struct stat found {};
    return ::stat(file.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
           (found.st_uid == ::geteuid() || found.st_uid == 0) && (found.st_mode & S_IWOTH) == 0;
}

/// The output of nvidia-smi with these options, if it is there and ends in time.
std::optional<std::string> ask_nvidia_smi(const std::vector<std::string>& options,
                                          const Inheritance& given,
                                          int launcher) {
    const auto program = find_command("nvidia-smi", read_env("PATH"), "/");
    if (!program.is_program()) {
        return std::nullopt;
    }
    std::vector<std::string> argv{program.path};
    argv.insert(argv.end(), options.begin(), options.end());
    auto text = run_tool(std::move(argv), given, launcher, Deadline::in(kToolLimit));
    return text ? std::optional(std::move(text).value()) : std::nullopt;
}

}  // namespace

std::optional<std::filesystem::path> find_probe(const std::filesystem::path& program) {
    constexpr std::string_view kName = "hvd-gpu-probe";
    if (program.native().ends_with(" (deleted)")) {
        return std::nullopt;
    }
    const auto folder = program.parent_path();
    if (const auto beside = folder / kName; is_ours(beside)) {
        return beside;
    }
    const auto installed = folder.parent_path() / "libexec" / "horovod" / kName;
    return folder.filename() == "bin" && is_ours(installed) ? std::optional(installed)
                                                            : std::nullopt;
}

std::optional<GpuFindings> parse_probe(std::string_view text) {
    constexpr std::size_t kGpuFields = 7;
    GpuFindings findings;
    for (const auto line : split(trim(text), '\n')) {
        if (line.empty()) {
            continue;
        }
        const auto fields = split(line, '\t');
        if (fields[0] == "note" && fields.size() == 2) {
            findings.note = fields[1];
            continue;
        }
        if (fields[0] == "driver" && fields.size() == 4) {
            findings.driver = {.version = std::string(fields[1]),
                               .cuda = std::string(fields[2]),
                               .link = std::string(fields[3])};
            continue;
        }
        if (fields[0] != "gpu" || fields.size() != kGpuFields) {
            return std::nullopt;
        }
        const auto index = parse_number<int>(fields[1]);
        const auto memory = parse_number<std::uint64_t>(fields[4]);
        const auto cpus = fields[5].empty() ? std::vector<int>{} : parse_ranges(fields[5]);
        if (!index || *index < 0 || !memory || !cpus) {
            return std::nullopt;
        }
        findings.gpus.push_back({.index = *index,
                                 .uuid = std::string(fields[2]),
                                 .name = std::string(fields[6]),
                                 .memory_bytes = *memory,
                                 .cpus = *cpus,
                                 .parent = std::string(fields[3])});
    }
    return findings;
}

bool may_have_gpus() {
    return ::access("/proc/driver/nvidia", F_OK) == 0 || ::access("/dev/nvidiactl", F_OK) == 0 ||
           read_env(kLibraryVariable).has_value();
}

GpuFindings find_gpus(const Inheritance& given, int launcher) {
    std::error_code error;
    const auto probe = find_probe(std::filesystem::read_symlink("/proc/self/exe", error));
    const auto text = probe ? run_tool({probe->string()}, given, launcher, Deadline::in(kToolLimit))
                            : Error{Errc::unavailable, "it did not come with the agent"};
    auto findings = text ? parse_probe(*text) : std::nullopt;
    // A driver that answers without a GPU has its reason: all may be in MIG mode without a device.
    if (findings && (!findings->gpus.empty() || findings->driver != GpuDriver{})) {
        return *std::move(findings);
    }
    GpuFindings result;
    // A library that was named is the one to ask; nothing else speaks for it.
    if (!read_env(kLibraryVariable)) {
        result = find_without_probe("/", [&](const std::vector<std::string>& options) {
            return ask_nvidia_smi(options, given, launcher);
        });
    }
    if (result.gpus.empty()) {
        result.note = findings ? findings->note
                      : text   ? "hvd-gpu-probe printed something else than GPUs"
                               : "hvd-gpu-probe: " + text.error().message;
    }
    return result;
}

}  // namespace hvd::launch::agent
