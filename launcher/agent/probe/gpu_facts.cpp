// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/probe/gpu_facts.hpp"

#include "collectives/base/command_path.hpp"
#include "collectives/base/env.hpp"
#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"
#include "launcher/agent/probe/tool.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr auto kToolLimit = std::chrono::seconds(5);
constexpr std::size_t kMaxText = std::size_t{64} << 10;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr const char* kDriverFolder = "/proc/driver/nvidia/gpus";
constexpr const char* kLibraryVariable = "HOROVOD_NVML_LIBRARY";

/// Whether nobody else than we or root can have put it there.
bool is_ours(const std::filesystem::path& file) {
    struct stat found {};
    return ::stat(file.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
           (found.st_uid == ::geteuid() || found.st_uid == 0) && (found.st_mode & S_IWOTH) == 0;
}

std::vector<Gpu> read_driver_files() {
    std::error_code error;
    std::vector<std::filesystem::path> folders;  // named after the place on the PCI bus
    for (const auto& entry : std::filesystem::directory_iterator(kDriverFolder, error)) {
        folders.push_back(entry.path());
    }
    std::ranges::sort(folders);
    std::vector<Gpu> gpus;
    for (const auto& folder : folders) {
        const auto text = read_file(folder / "information", kMaxText);
        auto gpu = text ? parse_driver_information(*text) : std::nullopt;
        if (!gpu) {
            continue;
        }
        gpu->index = static_cast<int>(gpus.size());
        const auto near = read_file(
            "/sys/bus/pci/devices/" + folder.filename().string() + "/local_cpulist", kMaxText);
        if (near) {
            gpu->cpus = parse_ranges(trim(*near)).value_or(std::vector<int>{});
        }
        gpus.push_back(*std::move(gpu));
    }
    return gpus;
}

std::vector<Gpu> ask_nvidia_smi(const Inheritance& given, int launcher) {
    const auto program = find_command("nvidia-smi", read_env("PATH"), "/");
    if (!program.is_program()) {
        return {};
    }
    const auto text =
        run_tool({program.path, std::string(kNvidiaSmiQuery), std::string(kNvidiaSmiFormat)}, given,
                 launcher, Deadline::in(kToolLimit));
    if (!text) {
        return {};
    }
    return parse_nvidia_smi(*text).value_or(std::vector<Gpu>{});
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

std::optional<Gpu> parse_driver_information(std::string_view text) {
    Gpu gpu;
    for (const auto line : split(text, '\n')) {
        const auto colon = line.find(':');
        if (colon == std::string_view::npos) {
            continue;
        }
        const auto name = trim(line.substr(0, colon));
        const auto value = trim(line.substr(colon + 1));
        if (name == "GPU UUID") {
            gpu.uuid = value;
        } else if (name == "Model") {
            gpu.name = value;
        }
    }
    // The driver shows question marks for a device that nobody has opened since it was loaded.
    if (gpu.uuid.empty() || gpu.uuid.find('?') != std::string::npos) {
        return std::nullopt;
    }
    return gpu;
}

std::optional<std::vector<Gpu>> parse_nvidia_smi(std::string_view text) {
    constexpr std::size_t kFields = 4;
    std::vector<Gpu> gpus;
    for (const auto line : split(trim(text), '\n')) {
        const auto fields = split(line, ',');
        if (fields.size() != kFields) {
            return std::nullopt;
        }
        const auto index = parse_number<int>(trim(fields[0]));
        const auto memory = parse_number<std::uint64_t>(trim(fields[2]));
        if (!index || *index < 0) {
            return std::nullopt;
        }
        gpus.push_back({.index = *index,
                        .uuid = std::string(trim(fields[1])),
                        .name = std::string(trim(fields[3])),
                        .memory_bytes = memory.value_or(0) * kMiB,  // "[N/A]" on some boards
                        .cpus = {}});
    }
    return gpus;
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
    result.note = findings ? findings->note
                  : text   ? "hvd-gpu-probe printed something else than GPUs"
                           : "hvd-gpu-probe: " + text.error().message;
    // A library that was named is the one to ask; nothing else speaks for it.
    if (!read_env(kLibraryVariable)) {
        result.gpus = read_driver_files();
        if (result.gpus.empty()) {
            result.gpus = ask_nvidia_smi(given, launcher);
        }
    }
    return result;
}

}  // namespace hvd::launch::agent
