// SPDX-License-Identifier: Apache-2.0
#include "collectives/cuda/driver.hpp"

#include "collectives/cuda/shared_library.hpp"

#include <algorithm>
#include <utility>

namespace hvd::coll::cuda {
namespace {

constexpr int kOldest = 11030;  // the first with cuGetProcAddress

/// cuGetProcAddress of both signatures. What newer drivers say beside the address is not needed:
/// the version shows which function is missing.
class Lookup {
public:
    static Result<Lookup> of(const SharedLibrary& library) {
        Lookup lookup;
        lookup.get_v12_ = reinterpret_cast<PFN_cuGetProcAddress_v12000>(
            find_symbol(library, "cuGetProcAddress_v2"));
        lookup.get_v11_ =
            reinterpret_cast<PFN_cuGetProcAddress_v11030>(find_symbol(library, "cuGetProcAddress"));
        if (lookup.get_v12_ == nullptr && lookup.get_v11_ == nullptr) {
            return Error{Errc::unsupported, "it has no cuGetProcAddress"};
        }
        return lookup;
    }

    [[nodiscard]] void* find(const char* name, int version) const {
        void* function = nullptr;
        constexpr auto kFlags = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
        const auto result = get_v12_ != nullptr
                                ? get_v12_(name, &function, version, kFlags, nullptr)
                                : get_v11_(name, &function, version, kFlags);
        return result == CUDA_SUCCESS ? function : nullptr;
    }

private:
    PFN_cuGetProcAddress_v12000 get_v12_ = nullptr;
    PFN_cuGetProcAddress_v11030 get_v11_ = nullptr;
};

/// 0 where the library does not say.
int version_of(const SharedLibrary& library) {
    int version = 0;
    const auto ask =
        reinterpret_cast<PFN_cuDriverGetVersion_v2020>(find_symbol(library, "cuDriverGetVersion"));
    return ask != nullptr && ask(&version) == CUDA_SUCCESS ? version : 0;
}

Error too_old(const SharedLibrary& library, int version, const std::string& why, int needed) {
    return Error{Errc::unsupported, "the CUDA driver " + library.path + " (CUDA " +
                                        cuda_version_text(version) + ") is too old: " + why +
                                        ": install a driver for CUDA " + cuda_version_text(needed) +
                                        " or later"};
}

}  // namespace

Result<Driver> open_driver(const std::string& name) {
    auto library = open_library(name);
    if (!library) {
        return Error{Errc::unsupported, "no CUDA driver can be loaded: " + library.error().message +
                                            ": install NVIDIA's driver, or make the container see "
                                            "it (--gpus all)"};
    }
    const int version = version_of(*library);
    auto lookup = Lookup::of(*library);
    if (!lookup) {
        return too_old(*library, version, lookup.error().message, kOldest);
    }
    Driver driver;
    driver.version = version;
    driver.path = library->path;
    const char* missing = nullptr;
    int needed = kOldest;
#define HVD_CUDA_LOOK_UP(function, since)                                                          \
    driver.function = reinterpret_cast<PFN_##function##_v##since>(lookup->find(#function, since)); \
    if (driver.function == nullptr) {                                                              \
        missing = #function;                                                                       \
        needed = std::max(needed, since);                                                          \
    }
    HVD_CUDA_FUNCTIONS(HVD_CUDA_LOOK_UP)
#undef HVD_CUDA_LOOK_UP
    if (missing != nullptr) {
        return too_old(*library, version, std::string("it has no ") + missing, needed);
    }
    return driver;
}

const Driver& open_once(std::optional<Driver>& driver, const std::string& name) {
    if (!driver) {
        auto opened = open_driver(name);
        if (!opened) {
            throw Exception(std::move(opened).error());
        }
        driver = std::move(opened).value();
    }
    return *driver;
}

std::string cuda_version_text(int version) {
    return version == 0
               ? "of an unknown version"
               : std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void check(const Driver& driver, CUresult result, const char* what) {
    if (result == CUDA_SUCCESS) {
        return;
    }
    const char* name = nullptr;
    const char* words = nullptr;
    (void)driver.cuGetErrorName(result, &name);
    (void)driver.cuGetErrorString(result, &words);
    throw Exception(
        Error{Errc::internal,
              std::string(what) + ": " +
                  (name != nullptr ? std::string(name) : "CUDA error " + std::to_string(result)) +
                  (words != nullptr ? std::string(" (") + words + ")" : std::string())});
}

}  // namespace hvd::coll::cuda
