// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/probe/nccl_file.hpp"

#include "collectives/base/command_path.hpp"
#include "collectives/base/file.hpp"
#include "collectives/base/loader_cache.hpp"
#include "collectives/base/text.hpp"
#include "launcher/agent/probe/folder.hpp"
#include "launcher/agent/probe/preflight.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

namespace hvd::launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLibrary = "libnccl.so.2";
constexpr const char* kInPackages = "nvidia/nccl/lib";

bool is_file(const fs::path& path) {
    std::error_code error;
    return fs::is_regular_file(path, error);
}

/// The folders directly in `parent` whose names begin so, in the order of their names.
std::vector<fs::path> list_folders(const fs::path& parent, std::string_view beginning) {
    auto folders = list_folder(parent);
    std::erase_if(folders, [beginning](const fs::path& folder) {
        return !folder.filename().native().starts_with(beginning);
    });
    return folders;
}

// ---- the interpreter ----

/// The program that a script's first line names; else the program itself.
fs::path interpreter_of(const fs::path& program, const Environment& environment) {
    std::ifstream file(program, std::ios::binary);
    std::array<char, 2> sign{};
    if (!file.read(sign.data(), sign.size()) || sign != std::array{'#', '!'}) {
        return program;
    }
    std::string line;
    std::getline(file, line);
    const auto words = split(trim(line), ' ');
    if (words.size() > 1 && fs::path(words[0]).filename() == "env") {
        return find_command(std::string(words[1]), find(environment, "PATH"), "").path;
    }
    return words[0];
}

/// Empty where there is no Python.
fs::path find_python(const std::string& command,
                     const std::string& cwd,
                     const Environment& environment) {
    for (const auto& name : {command, std::string("python3"), std::string("python")}) {
        const auto found = find_command(name, find(environment, "PATH"), cwd);
        if (!found.is_program()) {
            continue;
        }
        auto python = interpreter_of(fs::path(cwd) / found.path, environment);
        if (python.filename().native().starts_with("python")) {
            return python;
        }
    }
    return {};
}

// ---- its packages ----

bool sees_system_packages(const std::string& settings) {
    const auto lines = split(settings, '\n');
    return std::ranges::any_of(lines, [](std::string_view line) {
        const auto equals = line.find('=');
        return equals != std::string_view::npos &&
               trim(line.substr(0, equals)) == "include-system-site-packages" &&
               trim(line.substr(equals + 1)) == "true";
    });
}

/// Where an interpreter that is in no virtual environment has its packages.
void add_packages_of_installation(const fs::path& python,
                                  const Environment& environment,
                                  std::vector<fs::path>& folders) {
    std::error_code error;
    const auto program = fs::canonical(python, error);
    const auto name = program.filename().string();  // "python3.11", as its folders are called
    const auto prefix = program.parent_path().parent_path();
    std::vector<fs::path> libraries;
    if (const auto home = find(environment, "HOME"); home && !home->empty()) {
        libraries.push_back(fs::path(*home) / ".local/lib");
    }
    libraries.push_back(prefix / "local/lib");
    libraries.push_back(prefix / "lib");
    for (const auto& library : libraries) {
        for (const auto& folder : list_folders(library, name)) {
            folders.push_back(folder / "site-packages");
            folders.push_back(folder / "dist-packages");  // of Debian
        }
    }
    folders.push_back(prefix / "lib/python3/dist-packages");
}

std::vector<fs::path> find_packages(const fs::path& python, const Environment& environment) {
    constexpr std::size_t kMaxSettings = std::size_t{64} << 10;
    std::vector<fs::path> folders;
    const auto added = find(environment, "PYTHONPATH").value_or("");
    for (const auto folder : split(added, ':')) {
        folders.emplace_back(folder);
    }
    const auto prefix = python.parent_path().parent_path();
    const auto settings = read_file(prefix / "pyvenv.cfg", kMaxSettings);
    if (settings) {
        for (const auto& folder : list_folders(prefix / "lib", "python3")) {
            folders.push_back(folder / "site-packages");
        }
    }
    if (!settings || sees_system_packages(*settings)) {
        add_packages_of_installation(python, environment, folders);
    }
    return folders;
}

// ---- the library ----

/// By the name of the file, or of the only package of NCCL beside it.
std::string version_of(const fs::path& file) {
    constexpr std::string_view kPackage = "nvidia_nccl_cu";
    std::error_code error;
    const auto name = fs::canonical(file, error).filename().string();
    if (name.starts_with("libnccl.so.") && std::ranges::count(name, '.') > 3) {
        return name.substr(std::string_view("libnccl.so.").size());
    }
    if (!file.parent_path().native().ends_with(kInPackages)) {
        return "";
    }
    const auto packages = file.parent_path().parent_path().parent_path().parent_path();
    std::set<std::string> versions;
    for (const auto& folder : list_folders(packages, kPackage)) {
        const auto package = folder.stem().string();  // "nvidia_nccl_cu12-2.27.3"
        const auto dash = package.rfind('-');
        if (folder.extension() == ".dist-info" && dash != std::string::npos) {
            versions.insert(package.substr(dash + 1));
        }
    }
    return versions.size() == 1 ? *versions.begin() : "";
}

NcclFile describe(const fs::path& file) {
    return {.version = version_of(file), .file = file.string()};
}

}  // namespace

NcclFile find_nccl(const std::string& command,
                   const std::string& cwd,
                   const Environment& environment) {
    auto name = find(environment, "HOROVOD_NCCL_LIBRARY").value_or("");
    if (name.find('/') != std::string::npos) {
        return is_file(name) ? describe(name) : NcclFile{};
    }
    const auto python = find_python(command, cwd, environment);
    std::vector<fs::path> folders;
    if (name.empty() && !python.empty()) {
        for (const auto& packages : find_packages(python, environment)) {
            folders.push_back(packages / kInPackages);
        }
    }
    const auto added = find(environment, "LD_LIBRARY_PATH").value_or("");
    for (const auto folder : split(added, ':')) {
        folders.emplace_back(folder);
    }
    if (!python.empty()) {  // Conda's own libraries
        folders.push_back(python.parent_path().parent_path() / "lib");
    }
    name = name.empty() ? kLibrary : name;
    for (const auto& folder : folders) {
        if (folder.is_absolute() && is_file(folder / name)) {
            return describe(folder / name);
        }
    }
    const auto cached = find_in_loader_cache(name);
    return cached.empty() ? NcclFile{} : describe(cached);
}

NcclFile find_nccl(const JobPlan& job, const HostPlan& plan) {
    if (plan.ranks.empty()) {
        return {};
    }
    const auto& rank = plan.ranks.front();
    const auto& argv = argv_of(job, rank);
    return find_nccl(argv.empty() ? "" : argv.front(), cwd_of(job, rank),
                     environment_of_ranks(job, plan));
}

}  // namespace hvd::launch::agent
