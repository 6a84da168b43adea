// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/library.hpp"

#include "collectives/base/text.hpp"
#include "collectives/cuda/shared_library.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include <dlfcn.h>

namespace hvd::coll::nccl {
namespace {

using cuda::SharedLibrary;

constexpr const char* kFilePrefix = "libnccl.so";  // .2, or a version in full

Result<SharedLibrary> open_named(const std::string& name,
                                 const std::vector<SharedLibrary>& loaded) {
    const auto setting = std::string(kEnvLibrary) + "=" + name;
    const auto other_than = [&](const std::string& path) {
        return Error{Errc::invalid_argument,
                     setting + ": this process has loaded another NCCL, " + path +
                         ", and two in one process do not work together: unset " + kEnvLibrary +
                         ", or set it to that file"};
    };
    // Before it is opened: what is loaded stays.
    std::error_code error;
    if (!loaded.empty() && std::filesystem::exists(name, error) &&
        std::ranges::none_of(loaded, [&](const SharedLibrary& library) {
            return std::filesystem::equivalent(library.path, name, error);
        })) {
        return other_than(loaded.front().path);
    }
    auto library = cuda::open_library(name);
    if (!library) {
        return Error{Errc::invalid_argument, setting + ": " + library.error().message +
                                                 ": name the file libnccl.so.2, or unset it"};
    }
    if (!loaded.empty() && std::ranges::find(loaded, *library) == loaded.end()) {
        return other_than(loaded.front().path);
    }
    return library;
}

Result<SharedLibrary> find_library(const Search& search) {
    const auto loaded = cuda::loaded_libraries(kFilePrefix);
    if (!search.named.empty()) {
        return open_named(search.named, loaded);
    }
    if (!loaded.empty()) {
        return loaded.front();
    }
    std::vector<std::string> failures;
    for (const auto& folder : search.folders) {
        const auto file = folder / kLibraryName;
        std::error_code error;
        if (!std::filesystem::exists(file, error)) {
            failures.push_back(file.string() + " is not there");
            continue;
        }
        auto library = cuda::open_library(file.string());
        if (library) {
            return library;
        }
        failures.push_back(library.error().message);
    }
    auto library = cuda::open_library(kLibraryName);
    if (library) {
        return library;
    }
    failures.push_back(library.error().message);
    return Error{Errc::unsupported, "no NCCL can be loaded: " + join(failures, "; ") +
                                        ": pip install nvidia-nccl-cu12 or nvidia-nccl-cu13 "
                                        "(whichever fits the driver), or set " +
                                        kEnvLibrary +
                                        " to the file libnccl.so.2; HOROVOD_GPU_OPERATIONS=host "
                                        "needs none"};
}

}  // namespace

Result<Library> open_library(const Search& search) {
    HVD_TRY(const auto file, find_library(search));
    Library library;
    library.path = file.path;
    const char* missing = nullptr;
#define HVD_NCCL_LOOK_UP(function)                                                                 \
    library.function = reinterpret_cast<decltype(library.function)>(find_symbol(file, #function)); \
    if (library.function == nullptr) {                                                             \
        missing = #function;                                                                       \
    }
    HVD_NCCL_FUNCTIONS(HVD_NCCL_LOOK_UP)
#undef HVD_NCCL_LOOK_UP
    if (library.ncclGetVersion == nullptr) {
        return Error{Errc::unsupported, file.path + " is not NCCL: it has no ncclGetVersion"};
    }
    if (library.ncclGetVersion(&library.version) != ncclSuccess) {
        return Error{Errc::unsupported, file.path + ": ncclGetVersion failed"};
    }
    if (missing != nullptr || library.version < kOldestVersion) {
        return Error{
            Errc::unsupported,
            "NCCL " + version_text(library.version) + " (" + file.path + ") is too old" +
                (missing != nullptr ? std::string(": it has no ") + missing : std::string()) +
                ": install NCCL " + version_text(kOldestVersion) + " or later"};
    }
#define HVD_NCCL_LOOK_UP_LATER(function, since) \
    library.function = reinterpret_cast<decltype(library.function)>(find_symbol(file, #function));
    HVD_NCCL_LATER_FUNCTIONS(HVD_NCCL_LOOK_UP_LATER)
#undef HVD_NCCL_LOOK_UP_LATER
    return library;
}

std::vector<std::filesystem::path> folders_of_pip() {
    Dl_info own{};
    if (::dladdr(reinterpret_cast<const void*>(&folders_of_pip), &own) == 0) {
        return {};
    }
    // A wheel's library is below site-packages, in which pip makes nvidia/nccl/lib.
    std::vector<std::filesystem::path> folders;
    std::error_code ignored;
    for (auto folder = std::filesystem::path(own.dli_fname).parent_path();
         folder.has_relative_path(); folder = folder.parent_path()) {
        auto candidate = folder / "nvidia" / "nccl" / "lib";
        if (std::filesystem::is_directory(candidate, ignored)) {
            folders.push_back(std::move(candidate));
        }
    }
    return folders;
}

std::string version_text(int version) {
    // Up to 2.8 a version had four digits.
    const int major = version < 10000 ? version / 1000 : version / 10000;
    const int minor = version < 10000 ? version % 1000 / 100 : version % 10000 / 100;
    return std::to_string(major) + "." + std::to_string(minor) + "." +
           std::to_string(version % 100);
}

}  // namespace hvd::coll::nccl
