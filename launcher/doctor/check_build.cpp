// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/check_build.hpp"

#include "collectives/base/deadline.hpp"
#include "collectives/base/loader_cache.hpp"
#include "collectives/base/text.hpp"
#include "collectives/launch_contract/mpi_plugins.hpp"
#include "launcher/doctor/python_packages.hpp"
#include "launcher/output/say.hpp"

#include <chrono>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <nlohmann/json.hpp>

namespace hvd::launch {
namespace {

constexpr std::chrono::seconds kTimeout{30};  // a cold file system under load
constexpr std::string_view kNcclLibrary = "libnccl.so.2";

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

/// "2.27.7" of 22707; before 2.9 a version had one digit less.
std::string nccl_version(int version) {
    constexpr int kFirstLong = 10'000;
    constexpr int kHundred = 100;
    const int major = version / (version < kFirstLong ? kFirstLong / 10 : kFirstLong);
    const int minor = version / kHundred % (version < kFirstLong ? 10 : kHundred);
    return std::to_string(major) + "." + std::to_string(minor) + "." +
           std::to_string(version % kHundred);
}

/// What Python finds, which is what the ranks will; without a Python, a file where the dynamic
/// loader looks.
BuildFacts::Item find_nccl(const Environment& environment, const PythonPackages& python) {
    if (const auto& [version, file] = python.nccl; version != 0) {
        return {"NCCL", true,
                nccl_version(version) + ", " + (file.empty() ? "from the dynamic loader" : file)};
    }
    if (python.error.empty()) {
        return {"NCCL", false,
                std::string(kNcclLibrary) + " was not found by " + python.interpreter};
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

/// In the installation, and the build tree, that `program` belongs to.
BuildFacts::Item find_mpi(const std::filesystem::path& program) {
    const auto prefix = program.parent_path().parent_path();
    for (const auto* library_folder : {"lib", HVD_LIBRARY_FOLDER}) {
        const auto folder = prefix / library_folder / "horovod";
        if (coll::has_mpi_plugin(folder)) {
            return {"MPI", true, "plugins in " + folder.string()};
        }
    }
    return {"MPI", false, "no plugin in " + (prefix / HVD_LIBRARY_FOLDER / "horovod").string()};
}

/// Of the virtual environment that `program` lies in; none elsewhere.
std::filesystem::path own_python_folder(const std::filesystem::path& program) {
    const auto folder = program.parent_path();
    std::error_code error;
    return std::filesystem::exists(folder.parent_path() / "pyvenv.cfg", error)
               ? folder
               : std::filesystem::path();
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

std::string print_build_json(const BuildFacts& facts) {
    using Json = nlohmann::ordered_json;
    const auto list_items = [](const std::vector<BuildFacts::Item>& items) {
        auto list = Json::array();
        for (const auto& item : items) {
            list.push_back(
                {{"name", item.name}, {"available", item.is_there}, {"note", item.note}});
        }
        return list;
    };
    return Json{{"version", 1},
                {"horovod_version", facts.version},
                {"frameworks", list_items(facts.frameworks)},
                {"controllers", list_items(facts.controllers)},
                {"operations", list_items(facts.operations)}}
               .dump(2) +
           "\n";
}

BuildFacts find_build(const Environment& environment, const std::filesystem::path& program) {
    const auto python =
        find_python_packages(environment, own_python_folder(program),
                             {"tensorflow", "torch", "mxnet"}, Deadline::in(kTimeout));
    const auto mpi = find_mpi(program);
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

int check_build(const CheckBuild& request) {
    std::error_code unknown;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", unknown);
    const auto facts = find_build(current_environment(), program);
    return print_page(request.json ? print_build_json(facts) : print_build(facts, request.verbose));
}

}  // namespace hvd::launch
