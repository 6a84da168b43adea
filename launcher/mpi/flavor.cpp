// SPDX-License-Identifier: Apache-2.0
#include "launcher/mpi/flavor.hpp"

#include "collectives/base/text.hpp"

#include <optional>

namespace hvd::launch::mpi {
namespace {

constexpr int kFirstWithPrrte = 5;

/// "mpirun (Open MPI) 4.1.4" → 4.
std::optional<int> major_version(std::string_view text, std::string_view name) {
    const auto at = text.find(name);
    if (at == std::string_view::npos) {
        return std::nullopt;
    }
    constexpr std::string_view kDigits = "0123456789";
    const auto line = text.substr(at, text.find('\n', at) - at);
    const auto begin = line.find_first_of(kDigits);
    if (begin == std::string_view::npos) {
        return std::nullopt;
    }
    const auto end = line.find_first_not_of(kDigits, begin);
    return parse_number<int>(line.substr(begin, end - begin));
}

bool contains(std::string_view text, std::string_view part) noexcept {
    return text.find(part) != std::string_view::npos;
}

}  // namespace

std::string_view to_string(Kind kind) noexcept {
    switch (kind) {
        case Kind::open_mpi_4: return "Open MPI 4";
        case Kind::open_mpi_5: return "Open MPI 5";
        case Kind::spectrum: return "IBM Spectrum MPI";
        case Kind::mpich: return "MPICH";
        case Kind::intel: return "Intel MPI";
        case Kind::jsrun: return "jsrun";
    }
    return "?";
}

bool is_hydra(Kind kind) noexcept {
    return kind == Kind::mpich || kind == Kind::intel;
}

Result<Kind> detect_kind(std::string_view version_text, std::string_view program) {
    // Spectrum MPI and Intel MPI also name the MPI that they are derived from.
    if (contains(version_text, "IBM Spectrum MPI")) {
        return Kind::spectrum;
    }
    if (contains(version_text, "Intel(R) MPI")) {
        return Kind::intel;
    }
    if (contains(version_text, "PRRTE") || contains(version_text, "prterun")) {
        return Kind::open_mpi_5;
    }
    if (contains(version_text, "OpenRTE")) {
        return Kind::open_mpi_4;
    }
    if (contains(version_text, "Open MPI")) {
        const auto version = major_version(version_text, "Open MPI)");
        return version.value_or(0) >= kFirstWithPrrte ? Kind::open_mpi_5 : Kind::open_mpi_4;
    }
    if (contains(version_text, "MPICH") || contains(version_text, "HYDRA")) {
        return Kind::mpich;
    }
    const auto said = trim(version_text.substr(0, version_text.find('\n')));
    return Error{Errc::unsupported,
                 std::string(program) + " --version says '" + std::string(said) +
                     "', which is none of Open MPI, MPICH, Intel MPI and Spectrum MPI; name "
                     "another program in HOROVOD_MPIRUN, or leave --mpi out"};
}

}  // namespace hvd::launch::mpi
