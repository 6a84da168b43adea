// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/check_build.hpp"

#include "collectives/base/deadline.hpp"
#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"
#include "launcher/doctor/python_packages.hpp"

#include <chrono>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace hvd::launch {
namespace {

constexpr std::chrono::seconds kPatience{30};  // a cold file system under load
constexpr std::string_view kNcclLibrary = "libnccl.so.2";
constexpr const char* kNcclFile = "nvidia/nccl/lib/libnccl.so.2";

std::string list(const char* title, const std::vector<BuildFacts::Item>& items) {
    std::string text = "\n" + std::string(title) + ":\n";
    for (const auto& item : items) {
        text += std::string("    [") + (item.is_there ? "X" : " ") + "] " + item.name + "\n";
    }
    return text;
}

std::string notes(const std::vector<BuildFacts::Item>& items) {
    std::string text;
    for (const auto& item : items) {
        text += item.note.empty() ? "" : item.name + ": " + item.note + "\n";
    }
    return text;
}

BuildFacts::Item framework(const char* name, const char* module, const PythonPackages& python) {
    const auto package = python.found.find(module);
    if (package == python.found.end()) {
        return {name, false, python.error.empty() ? "not in " + python.interpreter : python.error};
    }
    return {name, true, package->second};
}

/// The path of `library` in the dynamic loader's cache, whose strings end with a NUL each.
std::string find_in_loader_cache(std::string_view library) {
    constexpr std::size_t kMaxCacheBytes = std::size_t{64} << 20;
    const auto cache = read_file("/etc/ld.so.cache", kMaxCacheBytes);
    if (!cache) {
        return "";
    }
    const auto name = cache->find("/" + std::string(library) + std::string(1, '\0'));
    if (name == std::string::npos) {
        return "";
    }
    const auto start = cache->rfind('\0', name) + 1;
    return cache->substr(start, cache->find('\0', start) - start);
}

/// NCCL, from the package that PyTorch brings along or where the dynamic loader looks. It is not
/// loaded: that would start CUDA.
BuildFacts::Item find_nccl(const Environment& environment, const PythonPackages& python) {
    if (const auto file = python.found.find(kNcclFile); file != python.found.end()) {
        return {"NCCL", true, file->second};
    }
    const auto folders = find(environment, "LD_LIBRARY_PATH").value_or("");
    for (const auto folder : split(folders, ':')) {
        const auto file = std::filesystem::path(folder) / kNcclLibrary;
        std::error_code error;
        if (!folder.empty() && std::filesystem::exists(file, error)) {
            return {"NCCL", true, file.string()};
        }
    }
    const auto file = find_in_loader_cache(kNcclLibrary);
    return {"NCCL", !file.empty(),
            file.empty() ? std::string(kNcclLibrary) + " was not found" : file};
}

}  // namespace

std::string print_build(const BuildFacts& facts, bool verbose) {
    std::string text;
    if (verbose) {
        text += "\n" + notes(facts.frameworks) + notes(facts.controllers) + notes(facts.operations);
    }
    return text + "Horovod v" + facts.version + ":\n" +
           list("Available Frameworks", facts.frameworks) +
           list("Available Controllers", facts.controllers) +
           list("Available Tensor Operations", facts.operations);
}

BuildFacts find_build(const Environment& environment) {
    const auto python = find_python_packages(environment, {"tensorflow", "torch", "mxnet"},
                                             {kNcclFile}, Deadline::in(kPatience));
    const BuildFacts::Item mpi{"MPI", false, "not part of this version"};
    const BuildFacts::Item gloo{"Gloo", true, "the native transport answers to this name"};
    return {
        .version = HVD_VERSION,
        .frameworks = {framework("TensorFlow", "tensorflow", python),
                       framework("PyTorch", "torch", python), framework("MXNet", "mxnet", python)},
        .controllers = {mpi, gloo},
        .operations = {find_nccl(environment, python),
                       {"DDL", false, "not supported"},
                       {"CCL", false, "not supported"},
                       mpi,
                       gloo}};
}

}  // namespace hvd::launch
